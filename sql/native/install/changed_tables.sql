-- Which captured tables a statement of a schema change has changed, what cannot be, and whether rows are to be sent again. Used by
-- follow_changes.sql.

-- How much of a table's capture is made again if this object of guarded_state.sql is not what was noted; null: it was not there, or is gone.
-- 0: nothing; 1: triggers and their functions, in place (psp.renew_capture); 2: everything. 2 waits for all readers of the table.
-- -1: nothing, and its writers need not know: VALIDATE CONSTRAINT. Rows that are not here yet were written under the constraint, since it has been
-- certified that their writers knew it. So all that it is to check is here.
CREATE FUNCTION psp.effort_of_change(kind text, name name, was text, now text) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT CASE WHEN kind = 'constraint triggers' THEN 0  -- of foreign keys; those of unique constraints come with them
                WHEN kind = 'constraint' AND was ~ '^(CHECK|FOREIGN KEY) ' AND was = now || ' NOT VALID' THEN -1
                WHEN kind = 'constraint' AND coalesce(was, now) ~ '^(CHECK|FOREIGN KEY) ' AND coalesce(now, was) ~ '^(CHECK|FOREIGN KEY) ' THEN 0
                WHEN kind = 'trigger' AND name !~ '^psp_' THEN 1
                WHEN kind = 'unique index' AND was IS NULL THEN 1
                ELSE 2 END
$$;

CREATE FUNCTION psp.is_key_generated(target oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                    WHERE i.indrelid = target AND i.indisprimary AND a.attgenerated <> '');
END $$;

-- Whether its owner was another one than noted before the statement, too.
CREATE FUNCTION psp.is_reassigned(schema_name name, relation_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.reassigned r JOIN pg_class c ON (c.oid, c.relowner) = (r.relation, r.owner)
                     JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE r.xid = pg_current_xact_id_if_assigned()
                      AND (n.nspname, c.relname) = (is_reassigned.schema_name, is_reassigned.relation_name));
END $$;

-- The captured tables that are not what was noted of them (guarded_state.sql), that were written again, or that rely on what has
-- changed. target: null if the table is gone. One with another name is known by its triggers.
CREATE FUNCTION psp.changed_tables() RETURNS TABLE (table_id integer, target oid, effort integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
    doubtful CONSTANT integer[] := psp.tables_in_doubt();
BEGIN
    IF doubtful = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY WITH captured AS MATERIALIZED (
        SELECT r.relation, r.table_id, n.nspname, c.relname, c.relispartition, psp.relation_definition(c) AS definition
          FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE r.table_id = ANY (doubtful)
    ), now AS (
        SELECT c.table_id, s.*
          FROM psp.guarded_state(ARRAY(SELECT c.relation FROM captured c)) s
          JOIN captured c ON (c.nspname, c.relname) = (s.schema_name, s.relation_name)
        UNION ALL
        SELECT c.table_id, c.nspname, c.relname, 'definition', c.relname, c.definition FROM captured c
    ), noted AS (
        SELECT g.table_id, o.*
          FROM psp.guarded_relations g JOIN psp.guarded_objects o USING (schema_name, relation_name)
         WHERE g.table_id = ANY (doubtful)
        UNION ALL
        SELECT g.table_id, g.schema_name, g.relation_name, 'definition', g.relation_name, g.definition
          FROM psp.guarded_relations g WHERE g.table_id = ANY (doubtful)
    ), changed AS (
        SELECT table_id, psp.effort_of_change(kind, name, noted.definition, now.definition) AS effort
          FROM now FULL JOIN noted USING (table_id, schema_name, relation_name, kind, name)
         WHERE CASE WHEN kind = 'form' THEN (noted.definition::jsonb <@ now.definition::jsonb) IS NOT TRUE
                    ELSE now.definition IS DISTINCT FROM noted.definition END
           AND NOT (kind = 'owner' AND psp.is_reassigned(schema_name, relation_name))
        UNION ALL
        SELECT c.table_id, CASE t.how WHEN 'replaced' THEN CASE WHEN psp.is_key_generated(c.relation) THEN 2 ELSE 0 END
                                      WHEN 'stricter' THEN 0 WHEN 'renamed' THEN 1 ELSE 2 END
          FROM psp.touched_relations t JOIN captured c ON c.relation = t.relation WHERE t.xid = pg_current_xact_id()
    )
    SELECT d.table_id, (SELECT c.relation FROM captured c WHERE c.table_id = d.table_id AND NOT c.relispartition), max(d.effort)
      FROM changed d GROUP BY d.table_id;
END $$;

-- New labels of an enum do not make a table another one, but they are noted.
CREATE FUNCTION psp.note_new_labels() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    WITH columns AS MATERIALIZED (
        SELECT o.schema_name, o.relation_name, o.name, o.definition, a.atttypid AS type
          FROM psp.guarded_objects o JOIN pg_namespace n ON n.nspname = o.schema_name
          JOIN pg_class c ON (c.relnamespace, c.relname) = (n.oid, o.relation_name)
          JOIN pg_attribute a ON (a.attrelid, a.attname) = (c.oid, o.name)
         WHERE o.kind = 'form'
    ), forms AS MATERIALIZED (
        SELECT c.type, psp.text_form(c.type)::text AS form FROM (SELECT DISTINCT type FROM columns) c
    )
    UPDATE psp.guarded_objects o SET definition = f.form
      FROM columns c JOIN forms f USING (type)
     WHERE c.definition <> f.form
       AND (o.schema_name, o.relation_name, o.kind, o.name) = (c.schema_name, c.relation_name, 'form', c.name);
END $$;

-- What psp.tables and the guard have noted of a table. number: the column's in the catalog here, which a new name does not change.
CREATE FUNCTION psp.noted_definition(table_id integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN (WITH t AS (
        SELECT * FROM psp.tables t WHERE t.table_id = noted_definition.table_id
    ), numbers AS (
        SELECT o.name, split_part(o.definition, ' ', 1)::integer AS number
          FROM t JOIN psp.guarded_objects o ON (o.schema_name, o.relation_name, o.kind) = (t.schema_name, t.table_name, 'column')
    )
    SELECT jsonb_build_object(
               'columns', (SELECT jsonb_agg(c.value - 'name' || jsonb_build_object('number', n.number) ORDER BY c.ordinality)
                             FROM jsonb_array_elements(t.columns) WITH ORDINALITY c JOIN numbers n ON n.name = c.value ->> 'name'),
               'key', (SELECT jsonb_agg(k.value - 'name' || jsonb_build_object('number', n.number) ORDER BY k.ordinality)
                         FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY k JOIN numbers n ON n.name = k.value ->> 'name'),
               'numbers', (SELECT jsonb_agg(n.number) FROM numbers n),  -- of all columns, those that are generated among them
               'forms', (SELECT coalesce(jsonb_object_agg(n.number, o.definition::jsonb), '{}')
                           FROM psp.guarded_objects o JOIN numbers n USING (name)
                          WHERE (o.schema_name, o.relation_name, o.kind) = (t.schema_name, t.table_name, 'form')),
               'guards', psp.guard_ids_of(t.guards),
               'relations', (SELECT jsonb_agg(format('%I.%s', r.schema_name, r.relation_name)) FROM psp.guarded_relations r
                              WHERE r.table_id = noted_definition.table_id))
      FROM t);
END $$;

-- ---- what cannot be ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION psp.refuse_change(target regclass, problem text, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('psp: table %s %s', target, problem), HINT = hint;
END $$;

-- What adoption does not take either (schema_tool/psp/schema/rules.py).
CREATE FUNCTION psp.check_table(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    tree    CONSTANT oid[] := ARRAY(SELECT target::oid UNION SELECT t.relid FROM pg_partition_tree(target) t);
    problem text;
    hint    text;
BEGIN
    SELECT p.* INTO problem, hint FROM (
        SELECT 'is not a permanent table, or has a partition that is none', 'Make it permanent.'
          FROM pg_class c WHERE c.oid = ANY (tree) AND (c.relpersistence <> 'p' OR c.relkind NOT IN ('r', 'p'))
        UNION ALL
        SELECT 'inherits from a table', 'Use declarative partitioning.'
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhrelid = target AND NOT c.relispartition
        UNION ALL
        SELECT format('has a unique index that is not valid (%s)', i.name), 'DROP INDEX, or REINDEX INDEX.'
          FROM psp.index_facts i WHERE i.relation = ANY (tree) AND NOT i.valid
        UNION ALL
        SELECT format('has a unique index (%s) on the whole row as one value', i.name), 'Name the columns in its expression.'
          FROM psp.index_facts i WHERE i.relation = ANY (tree) AND i.guarded AND i.whole_row
        UNION ALL
        SELECT format('has a foreign key (%I) to what is unique in one partition only', k.conname), 'Make the unique index on the partitioned table.'
          FROM pg_constraint k JOIN psp.index_facts i ON i.index = k.conindid JOIN pg_class c ON c.oid = i.relation
         WHERE k.contype = 'f' AND (k.conrelid = ANY (tree) OR k.confrelid = ANY (tree)) AND i.guarded AND c.relispartition
        UNION ALL
        SELECT 'has FORCE ROW LEVEL SECURITY, which hides rows from its owner, and rows are applied as the owner',
               'ALTER TABLE … NO FORCE ROW LEVEL SECURITY.'
          FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
         WHERE c.oid = ANY (tree) AND c.relforcerowsecurity AND NOT r.rolbypassrls
        UNION ALL
        SELECT format('has a trigger (%I) that is ENABLE ALWAYS or REPLICA and runs %s', t.name,
                      CASE WHEN t.is_before_row THEN 'before each row: it could change rows of other servers' ELSE 'on TRUNCATE' END),
               format('ALTER TABLE … ENABLE TRIGGER %I. For rows of other servers only triggers AFTER a row, or of a statement, may fire.', t.name)
          FROM psp.loud_triggers t WHERE t.relation = ANY (tree) AND (t.is_before_row OR t.is_on_truncate)
        UNION ALL
        SELECT format('has a rule (%I) that is ENABLE ALWAYS or REPLICA: it would change how rows of other servers are written', w.rulename),
               format('ALTER TABLE … ENABLE RULE %I.', w.rulename)
          FROM pg_rewrite w WHERE w.ev_class = ANY (tree) AND w.ev_enabled IN ('A', 'R')
        UNION ALL
        SELECT format('has a column (%I) of type %s, which holds OIDs: they differ between servers', a.attname, l.type::regtype),
               'Store the name as text.'
          FROM pg_attribute a JOIN psp.type_facts f ON f.type = a.atttypid CROSS JOIN LATERAL unnest(f.leaves) l(type)
         WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND l.type < 16384 AND l.type::regtype::text ~ '^reg'
    ) p(problem, hint) LIMIT 1;
    IF FOUND THEN
        PERFORM psp.refuse_change(target, problem, hint);
    END IF;
END $$;

-- What a query on a table returns. It runs in a function of the table's owner: the planner may call what stands in the predicates of
-- its indexes, under the owner's search_path. Binary text is in the client's encoding.
CREATE FUNCTION psp.read_as_owner(target regclass, query text) RETURNS SETOF bytea
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off SET client_encoding = 'UTF8' AS $$
DECLARE
    reader CONSTANT text := format('pg_temp.%I', 'psp_' || gen_random_uuid());
    path   CONSTANT text := (SELECT psp.search_path_of(c.relowner, c.relnamespace) FROM pg_class c WHERE c.oid = target);
BEGIN
    EXECUTE format('CREATE FUNCTION %s() RETURNS SETOF pg_catalog.bytea LANGUAGE plpgsql SECURITY DEFINER '
                   'SET search_path = pg_catalog, %s SET xmloption = content%s AS %L',
                   reader, path, psp.text_settings(), format('BEGIN RETURN QUERY %s; END', query));
    PERFORM psp.begin_own_commands();
    EXECUTE format('REVOKE ALL ON FUNCTION %s() FROM PUBLIC', reader);
    EXECUTE format('ALTER FUNCTION %s() OWNER TO %I', reader, (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = target));
    PERFORM psp.end_own_commands();
    RETURN QUERY EXECUTE format('SELECT * FROM %s()', reader);
    EXECUTE format('DROP FUNCTION %s()', reader);
END $$;

-- Whether a table has rows. A snapshot that is kept for the transaction may not show them all; then any page counts.
CREATE FUNCTION psp.has_rows(target regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN (SELECT sum(pg_relation_size(r.relation)) > 0
                  FROM (SELECT target UNION SELECT t.relid FROM pg_partition_tree(target) t) r(relation));
    END IF;
    RETURN EXISTS (SELECT FROM psp.read_as_owner(target, format('SELECT ''''::pg_catalog.bytea FROM %s LIMIT 1', target)));
END $$;

-- Whether a new column's value in rows that were there is the same at every server: one that PostgreSQL's own functions make of
-- constants, and that is still the default of the column, or of its domain. Constants of users' types are none: reading one may call
-- code of theirs, a CHECK of a domain in an array or a row.
CREATE FUNCTION psp.is_steady_default(target regclass, number integer) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET standard_conforming_strings = on AS $$
DECLARE
    made  record;
    value text;
BEGIN
    SELECT (a.attmissingval::text::text[])[1] AS missing, pg_get_expr(coalesce(f.adbin, t.typdefaultbin), target) AS expression,
           (SELECT bool_and(CASE WHEN m.found[1] IS NOT NULL
                                 THEN m.found[1] IN ('CONST', 'FUNCEXPR', 'OPEXPR', 'RELABELTYPE', 'ARRAYEXPR', 'ARRAY')
                                 ELSE p.oid < 16384 AND p.provolatile = 'i' END)
              FROM regexp_matches(coalesce(f.adbin, t.typdefaultbin)::text, '\{(\w+)|:(?:op)?funcid (\d+)', 'g') m(found)
              LEFT JOIN pg_proc p ON p.oid = m.found[2]::oid)
           AND NOT EXISTS (SELECT FROM regexp_matches(coalesce(f.adbin, t.typdefaultbin)::text, ':\w*type(?:id)? (\d+)', 'g') m(found)
                             JOIN pg_type u ON u.oid = m.found[1]::oid
                            WHERE u.oid >= 16384 AND u.typtype <> 'e') AS is_plain
      INTO made
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef f ON (f.adrelid, f.adnum) = (a.attrelid, a.attnum)
     WHERE a.attrelid = target AND a.attnum = number;
    IF made.is_plain IS NOT TRUE THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT concat(%s)', made.expression) INTO value;
    RETURN value IS NOT DISTINCT FROM made.missing;
END $$;

-- Whether the text of a column's values has changed; `was` and `now` are psp.noted_definition.
CREATE FUNCTION psp.has_new_form(was jsonb, now jsonb, number text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT was -> 'forms' ? number AND NOT was -> 'forms' -> number <@ coalesce(now -> 'forms' -> number, 'null')
$$;

-- Whether the rows of a table have other keys now. The name of an enum is in no key, and a generated column may have been computed by what
-- has changed.
CREATE FUNCTION psp.are_keys_new(target regclass, was jsonb, now jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_agg(CASE k.value ->> 'normalise' WHEN 'text' THEN k.value - 'type' ELSE k.value END)
              FROM jsonb_array_elements(was -> 'key') k)
           <> (SELECT jsonb_agg(CASE k.value ->> 'normalise' WHEN 'text' THEN k.value - 'type' ELSE k.value END)
                 FROM jsonb_array_elements(now -> 'key') k)
           OR EXISTS (SELECT FROM jsonb_array_elements(now -> 'key') k
                        JOIN pg_attribute a ON a.attrelid = target AND a.attnum = (k.value ->> 'number')::integer
                       WHERE psp.has_new_form(was, now, k.value ->> 'number')
                          OR a.attgenerated <> ''
                             AND EXISTS (SELECT FROM psp.touched_relations t
                                          WHERE (t.xid, t.relation, t.how) = (pg_current_xact_id(), target, 'replaced')));
END $$;

-- Whether the rows of a table are to be sent again: their images would not do any more, or the servers may have made different values.
-- `was` and `now` are psp.noted_definition.
CREATE FUNCTION psp.are_rows_new(target regclass, was jsonb, now jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
               SELECT FROM jsonb_array_elements(now -> 'columns') n
                 JOIN pg_attribute a ON a.attrelid = target AND a.attnum = (n.value ->> 'number')::integer
                 LEFT JOIN jsonb_array_elements(was -> 'columns') o ON o.value -> 'number' = n.value -> 'number'
                WHERE CASE WHEN o.value IS NOT NULL
                           THEN o.value -> 'encoding' <> n.value -> 'encoding' OR psp.has_new_form(was, now, n.value ->> 'number')
                           WHEN was -> 'numbers' @> (n.value -> 'number') THEN true  -- it was a generated one
                           WHEN a.atthasmissing THEN NOT psp.is_steady_default(target, a.attnum)
                           ELSE a.attidentity <> '' OR (a.atthasdef AND a.attgenerated = '')
                                OR EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typdefault IS NOT NULL) END)  -- a domain's
           OR EXISTS (SELECT FROM psp.touched_relations w
                       WHERE w.xid = pg_current_xact_id() AND w.how = 'rewritten'
                         AND (w.relation = target OR w.relation IN (SELECT t.relid FROM pg_partition_tree(target) t)));
END $$;

-- Whether there is a partition with rows that was none: for the primary they were rows of another table.
CREATE FUNCTION psp.has_new_partitions(target regclass, was jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_partition_tree(target) t JOIN pg_class c ON c.oid = t.relid
                    WHERE t.isleaf AND NOT was -> 'relations' ? format('%s.%s', c.relnamespace::regnamespace, c.relname)
                      AND psp.has_rows(t.relid));
END $$;

-- What a sequence must keep, or have from its beginning. (Where setval has put it, psp.align_sequences mends.) Those of unlogged tables are local, as their rows are.
CREATE FUNCTION psp.check_sequences() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    FOR s IN
        SELECT c.oid::regclass AS name, c.relpersistence,
               EXISTS (SELECT FROM psp.touched_relations t WHERE (t.xid, t.relation, t.how) = (pg_current_xact_id(), c.oid, 'altered')) AS altered, d.seqcycle, d.seqincrement <> q.stride AS is_other,
               q.base::numeric + q.stride NOT BETWEEN d.seqmin AND d.seqmax AS is_short
          FROM psp.sequences q JOIN pg_class c ON c.oid = q.relation JOIN pg_sequence d ON d.seqrelid = c.oid
         WHERE NOT EXISTS (SELECT FROM pg_depend o JOIN pg_class t ON t.oid = o.refobjid
                            WHERE o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.refclassid = 'pg_class'::regclass
                              AND o.deptype IN ('a', 'i') AND t.relpersistence = 'u')
    LOOP
        IF s.relpersistence <> 'p' OR s.seqcycle OR s.is_other OR s.is_short OR s.altered AND psp.is_out_of_class(s.name) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'feature_not_supported',
                MESSAGE = format('psp: sequence %s cannot draw other numbers at each semi-primary', s.name),
                DETAIL = CASE WHEN s.relpersistence <> 'p' THEN 'It is not permanent.' WHEN s.seqcycle THEN 'It has CYCLE.'
                              WHEN s.is_short THEN 'Its range is too small.' ELSE 'Its increment or its place was changed.' END,
                HINT = 'A sequence of a cluster is permanent, has NO CYCLE and a range for all, and is neither restarted nor given another increment.';
        END IF;
    END LOOP;
END $$;
