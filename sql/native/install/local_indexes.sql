-- Indexes of schema changes beside those that one semi-primary has alone. docs/schema-changes.md.

-- A CREATE INDEX with the name that the index has got: where another server has other indexes, PostgreSQL could choose another one there.
CREATE FUNCTION psp.with_chosen_name(statement text, name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(statement, psp.with_gaps('^(\s*create (?:unique )?index )(on\M.*)$'), 'i');
BEGIN
    RETURN coalesce(parts[1] || name || ' ' || parts[2], statement);
END $$;

-- DROP INDEX as it goes to the other servers: they need not have these indexes.
CREATE FUNCTION psp.drop_if_there(statement text, indexes text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN concat_ws(' ', 'DROP INDEX IF EXISTS', array_to_string(indexes, ', '),
                     CASE WHEN psp.without_comments(statement) ~* '\mcascade$' THEN 'CASCADE' END);
END $$;

-- The indexes that a text of psp.ddl drops; null: it does something else, or will fail.
CREATE FUNCTION psp.indexes_to_drop(statement text, role name, settings jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    one   CONSTANT text := 'NAME(?:_\._NAME)?';
    parts CONSTANT text[] := regexp_match(psp.without_comments(statement), psp.statement_pattern(
        concat('DROP INDEX( IF EXISTS)? (', one, '(?:_,_', one, ')*)(?: (?:CASCADE|RESTRICT))?')), 'i');
    named CONSTANT oid[] := ARRAY(SELECT psp.relation_named(m.found[1], role, settings)
                                    FROM regexp_matches(parts[2], btrim(psp.statement_pattern(one), '^$'), 'g') m(found));
BEGIN
    IF parts IS NULL OR parts[1] IS NULL AND array_position(named, NULL) IS NOT NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY n.nspname, c.relname)
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (named)
            HAVING bool_and(c.relkind IN ('i', 'I')));
END $$;

-- Before they are dropped here first, by psp.ddl: psp.may_drop_local_index lets them go.
CREATE FUNCTION psp.note_indexes_to_drop(indexes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), i.name::regclass, 'dropped' FROM jsonb_array_elements_text(indexes) i(name);
END $$;

-- ---- those that one semi-primary has alone: they decide neither whether a statement runs, nor which names PostgreSQL chooses ------------

-- What is no such index in any case: one that certification relies on, and one that its constraint makes and drops.
CREATE FUNCTION psp.is_never_alone(index oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = index AND k.contype IN ('p', 'u', 'x'))
           OR EXISTS (SELECT FROM pg_index i
                       WHERE i.indexrelid = index AND (i.indisunique OR i.indisexclusion) AND psp.is_captured(i.indrelid));
END $$;

-- These, indexes that jobs have made (other servers need not have those yet), and what was not made to its end.
CREATE VIEW psp.indexes_apart AS
SELECT l.index, i.indrelid AS relation, c.relnamespace AS schema, c.relname AS name, coalesce(l.old_name, c.relname) AS usual_name, l.is_leftover,
       EXISTS (SELECT FROM psp.jobs_of_indexes j WHERE (j.schema, j.name) = (c.relnamespace, c.relname)) AS is_of_job
  FROM psp.local_indexes l JOIN pg_index i ON i.indexrelid = l.index JOIN pg_class c ON c.oid = l.index
 WHERE NOT psp.is_never_alone(l.index);

CREATE VIEW psp.indexes_alone AS
SELECT a.index, a.relation, a.schema, a.name, a.usual_name FROM psp.indexes_apart a WHERE NOT a.is_of_job AND NOT a.is_leftover;

CREATE FUNCTION psp.name_aside(index oid, name name) RETURNS name
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('local_%s_%s', index, name)::name
$$;

-- Before a statement: until it has run they, and what attempts at others have left, have other names. Where it runs first, those keep theirs that its text names: PostgreSQL or the guard
-- says what there is to say. plain: of those of a text that does without psp.ddl only names change that PostgreSQL may choose for
-- it: they begin like a name in it. (It may concern temporary tables. Nobody should wait for that.)
CREATE FUNCTION psp.set_local_indexes_aside(statement text, plain boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
DECLARE
    here  CONSTANT boolean := current_setting('session_replication_role') <> 'replica';
    words text[];
    found record;
BEGIN
    PERFORM psp.note_leftovers(), psp.follow_local_indexes(), psp.set_local_relations_aside(statement);
    IF NOT EXISTS (SELECT FROM psp.local_indexes)
       OR psp.bare_statement(statement) ~* '^(grant|revoke|truncate|refresh|reindex|vacuum|analyze)\M' AND NOT psp.may_have_several(statement) THEN
        RETURN;
    END IF;
    PERFORM psp.note_older_indexes();
    words := psp.words_of(statement);
    FOR found IN
        SELECT a.* FROM (SELECT o.index, o.name FROM psp.indexes_alone o UNION SELECT l.index, l.name FROM psp.leftovers l) a
         WHERE NOT (here AND psp.is_named(a.name, statement, words))
           AND a.index NOT IN (SELECT w.index FROM psp.indexes_worked_on w)
           AND NOT (plain AND NOT EXISTS (SELECT FROM unnest(words) w(word) WHERE w.word <> '' AND starts_with(psp.folded(a.name), left(w.word, 28))))
         ORDER BY a.index
    LOOP
        PERFORM psp.run_own_command(format('ALTER INDEX %s RENAME TO %I', found.index::regclass, psp.name_aside(found.index, found.name)));
        UPDATE psp.local_indexes l SET name = psp.name_aside(found.index, found.name), old_name = found.name WHERE l.index = found.index;
    END LOOP;
END $$;

-- After it: those get their names back that nothing else has got, and no job will give to another index.
CREATE FUNCTION psp.bring_local_indexes_back() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    found record;
BEGIN
    PERFORM psp.bring_local_relations_back();
    FOR found IN
        SELECT l.index, l.old_name, EXISTS (SELECT FROM pg_class o WHERE (o.relname, o.relnamespace) = (l.old_name, n.oid))
                                    OR EXISTS (SELECT FROM psp.jobs_of_indexes j WHERE (j.schema, j.name) = (n.oid, l.old_name) AND j.state <> 'done') AS is_taken
          FROM psp.local_indexes l JOIN pg_class c ON c.oid = l.index JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE l.old_name IS NOT NULL ORDER BY l.index
    LOOP
        IF found.is_taken THEN
            RAISE WARNING USING MESSAGE = format('psp: a local index makes way for a schema change: %I is %s now', found.old_name, found.index::regclass);
        ELSE
            PERFORM psp.run_own_command(format('ALTER INDEX %s RENAME TO %I', found.index::regclass, found.old_name));
        END IF;
        UPDATE psp.local_indexes l SET name = c.relname, old_name = NULL FROM pg_class c WHERE l.index = found.index AND c.oid = l.index;
    END LOOP;
END $$;

-- Those of the tables that a text names, of which the table may be a partition, with those of jobs and what was not made to its end there, if
-- nobody makes it now; without a text all that are alone. (Those of partitions go with that of the whole.)
CREATE FUNCTION psp.indexes_alone_of(statement text) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    RETURN ARRAY(SELECT a.index FROM psp.indexes_apart a JOIN pg_class c ON c.oid = a.index JOIN pg_class t ON t.oid = a.relation
                  WHERE NOT c.relispartition AND a.index NOT IN (SELECT w.index FROM psp.indexes_worked_on w)
                    AND CASE WHEN statement IS NULL THEN NOT a.is_of_job AND NOT a.is_leftover
                             ELSE psp.is_named(t.relname, statement, words)
                                  OR EXISTS (SELECT FROM pg_partition_ancestors(a.relation) p JOIN pg_class w ON w.oid = p.relid
                                              WHERE psp.is_named(w.relname, statement, words)) END
                    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index g WHERE g.index_relid = a.index));
END $$;

-- psp.status tells that these are lost, until others of their names are made. Those of jobs the jobs make again.
CREATE FUNCTION psp.drop_indexes_alone(indexes oid[], problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    INSERT INTO psp.lost_indexes (xid, relation, name, definition, problem)
    SELECT pg_current_xact_id(), a.relation, a.usual_name, replace(pg_get_indexdef(a.index), quote_ident(a.name), quote_ident(a.usual_name)), problem
      FROM psp.indexes_alone a WHERE a.index = ANY (indexes);
    PERFORM psp.make_again(a.schema, a.name, problem) FROM psp.indexes_apart a WHERE a.index = ANY (indexes);
    PERFORM psp.run_own_command('DROP INDEX ' || (SELECT string_agg(i.index::regclass::text, ', ') FROM unnest(indexes) i(index)));
END $$;

CREATE FUNCTION psp.tell_lost_indexes() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost psp.lost_indexes;
BEGIN
    FOR lost IN SELECT l.* FROM psp.lost_indexes l WHERE l.xid = pg_current_xact_id() LOOP
        RAISE WARNING USING MESSAGE = format('psp: local index %I is dropped for a schema change: %s', lost.name, lost.problem),
                            DETAIL = lost.definition;
    END LOOP;
END $$;

-- Whether a statement that has arrived runs without these.
CREATE FUNCTION psp.runs_without_indexes(indexes oid[], problem text, call text, statement text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.cardinality(indexes) OPERATOR(pg_catalog.=) 0 THEN
        RETURN false;
    END IF;
    PERFORM psp.drop_indexes_alone(indexes, problem);
    PERFORM psp.run_where_it_arrives(call, statement, role, settings), psp.keep_local_indexes_apart(statement), psp.tell_lost_indexes();
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    IF psp.may_pass(SQLSTATE) THEN
        RAISE;
    END IF;
    RETURN false;
END $$;

-- Runs a statement that has arrived. If it fails beside the local indexes of its tables, or beside any, it runs without them. If that does
-- not help, the first error is the one to tell. Called under the statement's settings.
CREATE FUNCTION psp.run_beside_local_indexes(call text, statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    near  CONSTANT pg_catalog.oid[] := psp.indexes_alone_of(statement);
    alone CONSTANT pg_catalog.oid[] := psp.indexes_alone_of(NULL);
BEGIN
    IF pg_catalog.cardinality(alone OPERATOR(pg_catalog.||) near) OPERATOR(pg_catalog.=) 0 THEN
        PERFORM psp.run_where_it_arrives(call, statement, role, settings);
        RETURN;
    END IF;
    BEGIN
        PERFORM psp.run_where_it_arrives(call, statement, role, settings), psp.keep_local_indexes_apart(statement), psp.tell_lost_indexes();
    EXCEPTION WHEN OTHERS THEN
        IF psp.may_pass(SQLSTATE) THEN
            RAISE;
        ELSIF NOT psp.runs_without_indexes(near, SQLERRM, call, statement, role, settings) THEN
            IF NOT psp.runs_without_indexes(alone, SQLERRM, call, statement, role, settings) THEN
                RAISE;
            END IF;
        END IF;
    END;
END $$;
