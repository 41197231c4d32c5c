-- Before a statement of a schema change: which captured tables its words name, and what is prepared for it there.

-- A text in which names with escapes (U&"d\0061ta") stand as they are meant. What cannot be read PostgreSQL refuses, too.
CREATE FUNCTION psp.without_escapes(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    found  text[];
    name   text;
    result text := statement;
BEGIN
    IF position('&"' IN statement) = 0 THEN
        RETURN statement;
    END IF;
    FOR found IN SELECT m FROM regexp_matches(statement, '(u&("(?:[^"]|"")+")(?:\s*uescape\s*''(.)'')?)', 'gi') m LOOP
        name := found[2];
        IF found[3] IS NOT NULL THEN
            name := replace(replace(replace(replace(name, '\', '\\'), found[3] || found[3], E'\u0001'), found[3], '\'), E'\u0001', found[3]);
        END IF;
        result := replace(result, found[1], unistr(name));
    END LOOP;
    RETURN result;
EXCEPTION WHEN syntax_error OR invalid_parameter_value OR untranslatable_character THEN
    RETURN statement;
END $$;

-- A text or a name as the functions below compare them. Values of type name have collation C, which knows only the letters of ASCII.
CREATE FUNCTION psp.folded(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN lower(statement COLLATE "default");
END $$;

-- The words of a text, in which psp.is_named looks for a name: cut as PostgreSQL cuts names.
CREATE FUNCTION psp.words_of(statement text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT regexp_split_to_array(psp.folded(psp.without_escapes(statement)), '[^[:alnum:]_$]+' COLLATE "default")::name[]::text[]
$$;

-- A name of other letters than those of ASCII, or with other characters than a word has.
CREATE FUNCTION psp.is_odd_name_in(name name, statement text, words text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    folded CONSTANT text := psp.folded(replace(name, '"', '""'));
BEGIN
    RETURN CASE WHEN folded COLLATE "default" ~ '[^[:alnum:]_$]' THEN position(folded IN psp.folded(psp.without_escapes(statement))) > 0 ELSE folded = ANY (words) END;
END $$;

-- Whether a text may name this. (Asked of each function that there is: without a SET clause, PostgreSQL can inline it.)
CREATE FUNCTION psp.is_named(name name, statement text, words text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN name OPERATOR(pg_catalog.~) '[^A-Za-z0-9_$]' THEN psp.is_odd_name_in(name, statement, words)
                ELSE pg_catalog.lower(name::pg_catalog.text COLLATE pg_catalog."default") OPERATOR(pg_catalog.=) ANY (words) END
$$;

-- The captured relations whose names, or the names of the types that they are OF, are words of a text.
CREATE FUNCTION psp.relations_in(statement text) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    RETURN ARRAY(SELECT c.oid FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation
                   LEFT JOIN pg_type t ON t.oid = c.reloftype
                  WHERE psp.is_named(c.relname, statement, words) OR psp.is_named(t.typname, statement, words));
END $$;

-- The captured relations whose keys have labels of an enum that a text may rename.
CREATE FUNCTION psp.relations_with_labels_in(statement text, role name) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    IF NOT words @> '{rename,value}' THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT i.indrelid FROM psp.captured_relations r JOIN pg_index i ON i.indrelid = r.relation AND i.indisprimary
                   JOIN psp.column_facts f ON f.relation = i.indrelid AND f.number = ANY (i.indkey) JOIN pg_type e ON e.oid = ANY (f.leaves)
                  WHERE e.typtype = 'e' AND pg_has_role(role, e.typowner, 'USAGE') AND psp.is_named(e.typname, statement, words));
END $$;

-- Whether each USING of a text is a cast of a column, as Django, Rails and Alembic write it: that makes the same of a row everywhere. What else it
-- may be (random()) does not say.
CREATE FUNCTION psp.has_casts_only(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    name_re CONSTANT text := '("([^"]|"")+"|[[:alpha:]_][[:alnum:]_$]*)';
    zone_re CONSTANT text := '(\s+with(out)?\s+time\s+zone)?';
    type_re CONSTANT text := name_re || '(\s*\.\s*' || name_re || ')?(\s+(varying|precision))?(\s*\(\s*\d+\s*(,\s*\d+\s*)?\))?' || zone_re || '(\s*\[\d*\])*';
    cast_re CONSTANT text := '(' || name_re || '(\s*::\s*' || type_re || ')+|cast\s*\(\s*' || name_re || '\s+as\s+' || type_re || '\s*\))';
BEGIN
    RETURN regexp_replace(psp.without_escapes(statement), '\musing\s+' || cast_re || '\s*(?=,|;|$)', '', 'gi') !~* '\musing\M';
END $$;

-- How the rows of a table are captured before a statement that may give them other keys: as deleted ('d'), so that the other servers
-- run it without rows and have those that it makes here. Rows of other tables may refer to them, and PostgreSQL checks that again while it
-- runs: then the rows stay ('e'), and what the statement makes of them must be the same everywhere. (Of a key with 'e' nothing counts that was
-- captured before, so a row that the transaction has inserted would be missing there.)
CREATE FUNCTION psp.op_of_old_keys(target regclass, table_id integer, statement text) RETURNS "char"
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    child regclass;
BEGIN
    FOR child IN
        SELECT DISTINCT f.conrelid::regclass FROM pg_constraint f JOIN pg_index i ON i.indrelid = target AND i.indisprimary
         WHERE f.contype = 'f' AND f.conparentid = 0 AND f.confrelid = target AND f.conrelid <> target AND f.confkey && i.indkey::smallint[]
    LOOP
        EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', child);
        CONTINUE WHEN NOT psp.has_rows(child);
        IF statement ~* '\mprimary\M' THEN
            RETURN 'd';  -- no foreign key outlives the key that it refers to
        ELSIF NOT psp.has_casts_only(statement) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'feature_not_supported',
                MESSAGE = format('psp: a statement with USING, other than a cast of a column, cannot change the key of table %s, to which rows of %s refer', target, child),
                DETAIL = 'Other servers run it before they get the rows that it makes.',
                HINT = 'In one transaction drop the foreign key, run the statement, and add the foreign key again.';
        ELSIF EXISTS (SELECT FROM psp.captured w WHERE w.xid = pg_current_xact_id() AND w.table_id = op_of_old_keys.table_id) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'feature_not_supported',
                MESSAGE = format('psp: a transaction that has written rows of table %s cannot change its key, to which rows of %s refer', target, child),
                HINT = 'Change the key in a transaction of its own.';
        END IF;
        RETURN 'e';
    END LOOP;
    RETURN 'd';
END $$;

-- A statement of `role` that may give the rows of a table other keys, by its words: the rows are captured before, and after the
-- statement as they are then. From here on nobody may write others. (ALTER TYPE itself locks no table.)
CREATE FUNCTION psp.capture_old_keys(statement text, role name) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    named      CONSTANT oid[] := psp.relations_in(statement);
    relabelled CONSTANT oid[] := psp.relations_with_labels_in(statement, role);
    words      CONSTANT text[] := psp.words_of(statement);
    facts      jsonb;
BEGIN
    IF statement !~* '\malter\M.*\m(type|primary)\M' THEN
        RETURN;
    END IF;
    FOR facts IN
        SELECT psp.capture_facts(r.relation, r.table_id, '{}')
          FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation
         WHERE (r.relation = ANY (named) AND pg_has_role(role, c.relowner, 'USAGE') OR r.relation = ANY (relabelled))
           AND NOT c.relispartition
         ORDER BY r.relation
    LOOP
        CONTINUE WHEN statement !~* '\mprimary\M' AND (facts ->> 'relation')::regclass <> ALL (relabelled)
                      AND NOT EXISTS (SELECT FROM jsonb_array_elements(facts -> 'key_columns') k
                                       WHERE psp.is_named((k.value ->> 'name')::name, statement, words));
        EXECUTE format('LOCK TABLE %s IN %s MODE', facts ->> 'relation',
                       CASE WHEN (facts ->> 'relation')::regclass = ANY (named) THEN 'ACCESS EXCLUSIVE' ELSE 'SHARE ROW EXCLUSIVE' END);
        CONTINUE WHEN NOT psp.has_rows((facts ->> 'relation')::regclass);
        PERFORM psp.capture_keys((facts ->> 'relation')::regclass, facts,
                                 psp.op_of_old_keys((facts ->> 'relation')::regclass, (facts ->> 'table_id')::integer, statement));
        INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), (facts ->> 'table_id')::integer) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- The tables that a text drops by their names; none: it does something else as well, or may be several statements.
CREATE FUNCTION psp.tables_to_drop(statement text, role name, settings jsonb) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    one   CONSTANT text := 'NAME(?:_\._NAME)?';
    names CONSTANT text := (regexp_match(psp.without_comments(statement), psp.statement_pattern(
        concat('DROP TABLE(?: IF EXISTS)? (', one, '(?:_,_', one, ')*)(?: (?:CASCADE|RESTRICT))?')), 'i'))[1];
BEGIN
    RETURN ARRAY(SELECT psp.relation_named(m.found[1], role, settings)
                   FROM regexp_matches(names, btrim(psp.statement_pattern(one), '^$'), 'g') m(found));
END $$;

-- Before a statement that drops tables: the partitions in its text that have no rows, and those that it drops by their names. For the primary,
-- rows of a partition are some of the whole's, and a DROP would leave them there: their keys go along, as at TRUNCATE, and psp.on_drop lets
-- no others go. Locked as PostgreSQL is about to. It makes functions of other roles (psp.read_as_owner), so it is a superuser's.
CREATE FUNCTION psp.note_partitions_to_drop(statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    dropped oid[];
    part    record;
BEGIN
    DELETE FROM psp.touched_relations t WHERE t.xid = pg_current_xact_id_if_assigned() AND t.how IN ('empty', 'to drop');
    IF statement !~* '\mdrop\s+table\M' THEN
        RETURN;
    END IF;
    dropped := psp.tables_to_drop(statement, role, settings);
    FOR part IN
        SELECT c.oid::regclass AS name, i.inhparent::regclass AS whole, r.table_id,
               c.oid = ANY (dropped) AND NOT dropped && ARRAY(SELECT a.relid::oid FROM pg_partition_ancestors(c.oid) a WHERE a.relid <> c.oid) AS goes
          FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation JOIN pg_inherits i ON i.inhrelid = c.oid
          JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.oid = ANY (psp.relations_in(statement)) AND c.relispartition
           AND (pg_has_role(role, c.relowner, 'USAGE') OR pg_has_role(role, n.nspowner, 'USAGE'))
         ORDER BY c.oid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', part.whole);
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', part.name);
        IF NOT psp.has_rows(part.name) THEN
            INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), t.relid, 'empty' FROM pg_partition_tree(part.name) t;
        ELSIF part.goes THEN
            PERFORM psp.capture_keys(part.name, psp.capture_facts(pg_partition_root(part.name), part.table_id, '{}'), 'e');
            INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), t.relid, 'to drop' FROM pg_partition_tree(part.name) t;
        END IF;
    END LOOP;
END $$;

-- After the statement: the keys of rows that have stayed must not go along.
CREATE FUNCTION psp.check_partitions_have_gone() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept CONSTANT regclass := (SELECT min(c.oid) FROM psp.touched_relations t JOIN pg_class c ON c.oid = t.relation
                                WHERE t.xid = pg_current_xact_id_if_assigned() AND t.how = 'to drop');
BEGIN
    IF kept IS NOT NULL THEN
        PERFORM psp.refuse_change(kept, 'is a partition that the statement names, and has not dropped', 'Drop it by a statement of its own.');
    END IF;
END $$;

-- What PostgreSQL would not let a statement do because of psp's triggers, on the tables whose names are in its text. All of it is as
-- before after psp.follow_changes.
--   A column of the key gets no other type, and is not dropped, while a trigger names it.
--   A partition gets triggers of the whole; who creates it must be allowed to call their functions.
--   A table cannot become a partition while it has triggers of the same names.
--   A table that psp has given a key (psp_key) gets none of its own beside it.
CREATE FUNCTION psp.prepare_tables(statement text, role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    attaches CONSTANT boolean := psp.words_of(statement) @> '{attach,partition}';
    named    oid[];
    found    record;
BEGIN
    IF statement !~* 'alter|partition' THEN
        RETURN;
    END IF;
    named := psp.relations_in(statement);
    PERFORM psp.begin_own_commands();
    IF statement ~* '\madd\M.*\mprimary\s+key\M' AND statement !~* '\mpsp_key\M' THEN
        FOR found IN
            SELECT c.oid::regclass AS target
              FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
              JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attname = 'psp_key'
             WHERE c.oid = ANY (named) AND NOT c.relispartition AND pg_has_role(role, c.relowner, 'USAGE')
        LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS psp_capture_rekey ON %s', found.target);
            EXECUTE format('ALTER TABLE %s DROP COLUMN psp_key', found.target);
        END LOOP;
    END IF;
    FOR found IN
        SELECT t.tgname, c.oid::regclass AS target
          FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid
         WHERE c.oid = ANY (named) AND t.tgparentid = 0
           AND CASE WHEN t.tgname IN ('psp_capture_rekey', 'psp_capture_share', 'PSP_ended') AND t.tgattr <> '' AND statement ~* '\m(type|drop)\M' THEN true
                    WHEN c.relkind <> 'p' THEN t.tgname ~ '^(psp_capture(_|$)|PSP_ended$)' AND attaches END
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.target);
    END LOOP;
    FOR found IN
        SELECT p.oid::regprocedure AS function
          FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE c.oid = ANY (named) AND c.relkind = 'p' AND p.pronamespace = 'psp'::regnamespace AND p.proname ~ '^capture_[0-9]+_'
           AND pg_has_role(role, c.relowner, 'USAGE')  -- others can make no partition, and no trigger of their own may call it
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', found.function, role);
    END LOOP;
    PERFORM psp.end_own_commands();
END $$;

-- A text may drop a column and then its type, before psp.follow_changes comes: types and functions of psp's own that need a type named in the
-- text go before it. Their tables count as changed, and so get them again.
CREATE FUNCTION psp.prepare_types(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning SET jit = off SET standard_conforming_strings = on AS $$
DECLARE
    words          CONSTANT text[] := psp.words_of(statement);
    with_extension CONSTANT boolean := statement ~* '\mdrop\s+extension\M';
    found record;
BEGIN
    IF position(';' IN statement) = 0 OR statement !~* '\mdrop\M' THEN
        RETURN;
    END IF;
    PERFORM psp.begin_own_commands();
    FOR found IN
        SELECT o.command, array_agg(DISTINCT r.relation) AS relations
          FROM (SELECT 'pg_class'::regclass AS class, c.oid, t.table_id, format('DROP TYPE psp.%I CASCADE', c.relname) AS command
                  FROM psp.tables t CROSS JOIN unnest('{values,keys}'::text[]) k(kind)
                  JOIN pg_class c ON (c.relnamespace, c.relname) = ('psp'::regnamespace, format('apply_%s_%s', k.kind, t.table_id)::name)
                UNION ALL
                SELECT 'pg_proc'::regclass, f.function, f.table_id, format('DROP FUNCTION %s', f.function)
                  FROM psp.table_functions f WHERE f.name ~ '^guard_' AND f.function IS NOT NULL) o
          JOIN pg_depend d ON (d.classid, d.objid, d.refclassid) = (o.class, o.oid, 'pg_type'::regclass)
          JOIN pg_type t ON t.oid = d.refobjid LEFT JOIN pg_type e ON e.oid = t.typelem
          JOIN psp.captured_relations r ON r.table_id = o.table_id
         WHERE psp.is_named(t.typname, statement, words) OR psp.is_named(e.typname, statement, words)
            OR with_extension AND EXISTS (SELECT FROM pg_depend x WHERE (x.classid, x.deptype) = ('pg_type'::regclass, 'e')
                                                                   AND x.objid IN (t.oid, e.oid))
         GROUP BY o.command
    LOOP
        EXECUTE found.command;
        INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), r.relation, 'prepared' FROM unnest(found.relations) r(relation);
    END LOOP;
    PERFORM psp.end_own_commands();
END $$;

-- Takes back what psp.prepare_tables has granted.
CREATE FUNCTION psp.take_back_grants() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    granted CONSTANT regproc[] := ARRAY(
        SELECT p.oid FROM pg_proc p
         WHERE p.pronamespace = 'psp'::regnamespace AND p.proname ~ '^capture_[0-9]+_'
           AND EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee <> 'psp_functions'::regrole));
BEGIN
    IF granted <> '{}' THEN
        PERFORM psp.begin_own_commands(), psp.take_from_all(granted, 'psp_functions'::regrole), psp.end_own_commands();
    END IF;
END $$;
