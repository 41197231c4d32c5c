-- After a statement of a schema change (schema_history.sql): tables that it has changed get their capture again, those that it has
-- created get one, and sequences get their strides. Every semi-primary does this after each statement, on the same catalog, so
-- all give the same numbers. docs/decisions/32.
--
-- `here`: the statement runs here first. What stands in its way is refused then, and only then: a server that joins runs the
-- statements while its tables have no rows yet, and must come to the same result.

-- How much of a table's capture is made again if this object of guarded_state.sql is not what was noted; null: it was not there, or is gone.
-- 0: nothing; 1: triggers and their functions, in place (psp.renew_capture); 2: everything. 2 waits for all readers of the table.
CREATE FUNCTION psp.effort_of_change(kind text, name name, was text, now text) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT CASE WHEN kind = 'constraint triggers' THEN 0  -- of foreign keys; those of unique constraints come with them
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

-- The captured tables that are not what was noted of them (guarded_state.sql), that were written again, or that rely on what has
-- changed. target: null if the table is gone. One with another name is known by its triggers.
CREATE FUNCTION psp.changed_tables() RETURNS TABLE (table_id integer, target oid, effort integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH captured AS MATERIALIZED (
        SELECT r.relation, r.table_id, n.nspname, c.relname, c.relispartition, psp.relation_definition(c) AS definition
          FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE r.table_id <> @SCHEMA_HISTORY_ID@
    ), now AS (
        SELECT c.table_id, s.*
          FROM psp.guarded_state(ARRAY(SELECT c.relation FROM captured c)) s
          JOIN captured c ON (c.nspname, c.relname) = (s.schema_name, s.relation_name)
        UNION ALL
        SELECT c.table_id, c.nspname, c.relname, 'definition', c.relname, c.definition FROM captured c
    ), noted AS (
        SELECT g.table_id, o.*
          FROM psp.guarded_objects o JOIN psp.guarded_relations g USING (schema_name, relation_name)
         WHERE g.table_id <> @SCHEMA_HISTORY_ID@
        UNION ALL
        SELECT g.table_id, g.schema_name, g.relation_name, 'definition', g.relation_name, g.definition
          FROM psp.guarded_relations g WHERE g.table_id <> @SCHEMA_HISTORY_ID@
    ), changed AS (
        SELECT table_id, psp.effort_of_change(kind, name, noted.definition, now.definition) AS effort
          FROM now FULL JOIN noted USING (table_id, schema_name, relation_name, kind, name)
         WHERE CASE WHEN kind = 'form' THEN (noted.definition::jsonb <@ now.definition::jsonb) IS NOT TRUE
                    ELSE now.definition IS DISTINCT FROM noted.definition END
        UNION ALL
        SELECT c.table_id, CASE t.how WHEN 'replaced' THEN CASE WHEN psp.is_key_generated(c.relation) THEN 2 ELSE 0 END
                                      WHEN 'renamed' THEN 1 ELSE 2 END
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
               'guards', (SELECT coalesce(jsonb_object_agg(g.value ->> 'index', g.value -> 'guard_id'), '{}')
                            FROM jsonb_array_elements(t.guards) g),
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
        SELECT format('has an exclusion constraint (%s), which is not certified between servers', i.name), 'Use a unique index.'
          FROM psp.index_facts i WHERE i.relation = ANY (tree) AND i.exclusion
        UNION ALL
        SELECT format('has a unique index that is not valid (%s)', i.name), 'DROP INDEX, or REINDEX INDEX.'
          FROM psp.index_facts i WHERE i.relation = ANY (tree) AND NOT i.valid
        UNION ALL
        SELECT format('has a unique index (%s) on the whole row as one value', i.name), 'Name the columns in its expression.'
          FROM psp.index_facts i WHERE i.relation = target AND i.whole_row
        UNION ALL
        SELECT format('has a partition with a unique index of its own (%s)', i.name), 'Make it on the partitioned table.'
          FROM psp.index_facts i WHERE i.relation = ANY (tree) AND i.relation <> target AND NOT i.attached
        UNION ALL
        SELECT 'has FORCE ROW LEVEL SECURITY, which hides rows from its owner, and rows are applied as the owner',
               'ALTER TABLE … NO FORCE ROW LEVEL SECURITY.'
          FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
         WHERE c.oid = ANY (tree) AND c.relforcerowsecurity AND NOT r.rolbypassrls
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
-- its indexes.
CREATE FUNCTION psp.read_as_owner(target regclass, query text) RETURNS SETOF bytea
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
    reader CONSTANT text := format('pg_temp.%I', 'psp_' || gen_random_uuid());
BEGIN
    EXECUTE format('CREATE FUNCTION %s() RETURNS SETOF pg_catalog.bytea LANGUAGE plpgsql SECURITY DEFINER '
                   'SET search_path = pg_catalog, pg_temp SET xmloption = content%s AS %L',
                   reader, psp.text_settings(), format('BEGIN RETURN QUERY %s; END', query));
    PERFORM psp.begin_own_commands(), psp.give_to_owner(ARRAY[reader::regproc], target), psp.end_own_commands();
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
-- constants, and that is still the default of the column, or of its domain.
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
              LEFT JOIN pg_proc p ON p.oid = m.found[2]::oid) AS is_plain
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

-- What a sequence must keep, or have from its beginning. Those of unlogged tables are local, as their rows are.
CREATE FUNCTION psp.check_sequences() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    FOR s IN
        SELECT c.oid::regclass AS name, c.relpersistence, d.seqcycle, d.seqincrement <> q.stride AS is_other,
               q.base::numeric + q.stride NOT BETWEEN d.seqmin AND d.seqmax AS is_short
          FROM psp.sequences q JOIN pg_class c ON c.oid = q.relation JOIN pg_sequence d ON d.seqrelid = c.oid
         WHERE NOT EXISTS (SELECT FROM pg_depend o JOIN pg_class t ON t.oid = o.refobjid
                            WHERE o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.refclassid = 'pg_class'::regclass
                              AND o.deptype IN ('a', 'i') AND t.relpersistence = 'u')
    LOOP
        IF s.relpersistence <> 'p' OR s.seqcycle OR s.is_other OR s.is_short OR psp.is_out_of_class(s.name) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'feature_not_supported',
                MESSAGE = format('psp: sequence %s cannot draw other numbers at each semi-primary', s.name),
                DETAIL = CASE WHEN s.relpersistence <> 'p' THEN 'It is not permanent.' WHEN s.seqcycle THEN 'It has CYCLE.'
                              WHEN s.is_short THEN 'Its range is too small.' ELSE 'Its increment or its place was changed.' END,
                HINT = 'A sequence of a cluster is permanent, has NO CYCLE and a range for all, and is neither restarted nor given another increment.';
        END IF;
    END LOOP;
END $$;

-- ---- images of older definitions --------------------------------------------------------------------------------------------

-- The bytes that a new column's value in older rows has in an image, in hexadecimal digits; null: NULL. (PostgreSQL keeps the value as an array.)
CREATE FUNCTION psp.older_value(target regclass, number integer, encoding text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex' SET lc_monetary = 'C' SET timezone = 'UTC' SET standard_conforming_strings = on AS $$
DECLARE
    kept  record;
    bytes bytea;
BEGIN
    SELECT a.attmissingval::text AS list, format_type(a.atttypid, a.atttypmod) AS type INTO kept
      FROM pg_attribute a WHERE a.attrelid = target AND a.attnum = number AND a.atthasmissing;
    IF encoding = 'text' THEN
        bytes := convert_to((kept.list::text[])[1], 'UTF8');
    ELSIF kept.list IS NOT NULL THEN
        -- What comes after the number of columns, the type and the length.
        EXECUTE format('SELECT substring(record_send(ROW((%L::%s[])[1])) FROM 13)', kept.list, kept.type) INTO bytes;
    END IF;
    RETURN encode(bytes, 'hex');
END $$;

-- Writes down how images up to version - 1 become rows of today's definition.
CREATE FUNCTION psp.note_older_images(table_id integer, target regclass, version integer, was jsonb, now jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    steps jsonb;
BEGIN
    SELECT jsonb_agg(CASE WHEN o.value IS NOT NULL THEN jsonb_build_object('place', o.ordinality - 1)
                          ELSE jsonb_build_object('value', psp.older_value(target, (n.value ->> 'number')::integer, n.value ->> 'encoding'))
                          END ORDER BY n.ordinality)
      INTO steps
      FROM jsonb_array_elements(now -> 'columns') WITH ORDINALITY n
      LEFT JOIN jsonb_array_elements(was -> 'columns') WITH ORDINALITY o ON o.value -> 'number' = n.value -> 'number';
    IF was -> 'columns' = now -> 'columns' THEN
        RETURN;
    END IF;
    UPDATE psp.older_images i
       SET fields = (SELECT jsonb_agg(CASE WHEN f.value ? 'place' THEN i.fields -> (f.value ->> 'place')::integer ELSE f.value END
                                      ORDER BY f.ordinality)
                       FROM jsonb_array_elements(steps) WITH ORDINALITY f)
     WHERE i.table_id = note_older_images.table_id;
    -- It is there if an earlier statement of the same transaction has changed the table.
    INSERT INTO psp.older_images (table_id, until_version, fields) VALUES (table_id, version - 1, steps) ON CONFLICT DO NOTHING;
END $$;

-- ---- all rows of a table -----------------------------------------------------------------------------------------------------------

-- Tables whose rows the statement of this transaction has made or changed.
CREATE UNLOGGED TABLE psp.tables_to_capture (
    xid      xid8,
    table_id integer,
    PRIMARY KEY (xid, table_id)
);

-- Captures all rows of these tables, after the statement: as an update of all of them would be captured. It makes functions of other roles
-- (psp.read_as_owner), so it is a superuser's.
CREATE FUNCTION psp.capture_tables() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    client CONSTANT text := pg_client_encoding();
    facts  jsonb;
BEGIN
    PERFORM set_config('client_encoding', 'UTF8', true);  -- binary text is in it
    FOR facts IN
        SELECT psp.capture_facts(to_regclass(format('%I.%I', t.schema_name, t.table_name)), t.table_id, '{}')
          FROM psp.tables_to_capture c JOIN psp.tables t USING (table_id) WHERE c.xid = pg_current_xact_id()
    LOOP
        INSERT INTO psp.write_set (xid, table_id, op, payload)
        SELECT pg_current_xact_id(), (facts ->> 'table_id')::integer, CASE WHEN psp.is_key_in_image(facts) THEN 'i' ELSE 'u' END::"char", e
          FROM psp.read_as_owner((facts ->> 'relation')::regclass,
                                 format('SELECT %s FROM %s r', psp.entry_of(facts, 'r'), facts ->> 'relation')) e;
    END LOOP;
    DELETE FROM psp.tables_to_capture WHERE xid = pg_current_xact_id();
    PERFORM set_config('client_encoding', client, true);
END $$;

-- ---- what follows ------------------------------------------------------------------------------------------------------------

-- The next number for a table or a guard. None is given twice.
CREATE FUNCTION psp.take_number() RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.identity SET last_number = last_number + 1 RETURNING last_number
$$;

-- The numbers of a table's guards, new ones for the indexes that are not in `known`.
CREATE FUNCTION psp.keep_guard_numbers(target oid, known jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index   text;
    numbers jsonb := '{}';
BEGIN
    FOR index IN SELECT f.name FROM psp.index_facts f WHERE f.relation = target AND f.guarded ORDER BY f.name LOOP
        numbers := numbers || jsonb_build_object(index, coalesce((known ->> index)::integer, psp.take_number()));
    END LOOP;
    RETURN numbers;
END $$;

-- Tells the primary, with the transaction's write-set, what became of a table: it was changed ('00'), dropped ('01') or emptied ('02').
CREATE FUNCTION psp.announce_table(table_id integer, what text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    SELECT pg_current_xact_id(), announce_table.table_id, 'c',
           decode(what, 'hex')
           || coalesce((SELECT string_agg(int4send((g.value ->> 'guard_id')::integer), '')
                          FROM psp.tables t, jsonb_array_elements(t.guards) g WHERE t.table_id = announce_table.table_id), '')
$$;

-- A table that was captured, and has the columns and the key that it had.
CREATE FUNCTION psp.follow_renewed(table_id integer, target regclass, was jsonb, effort integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.check_table(target);
    IF effort = 0 THEN
        PERFORM psp.note_table(table_id);
    ELSE
        PERFORM psp.renew_capture(target, table_id, psp.keep_guard_numbers(target, was -> 'guards'));
    END IF;
END $$;

-- A table that was captured and is another one now. Its old capture is gone.
CREATE FUNCTION psp.follow_changed(table_id integer, target regclass, was jsonb, version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now jsonb;
BEGIN
    PERFORM psp.check_table(target);
    PERFORM psp.create_capture(target, table_id, psp.keep_guard_numbers(target, was -> 'guards'));
    now := psp.noted_definition(table_id);
    IF here AND psp.has_rows(target) THEN
        IF psp.are_keys_new(target, was, now) AND NOT EXISTS (
            SELECT FROM psp.tables_to_capture c WHERE (c.xid, c.table_id) = (pg_current_xact_id(), follow_changed.table_id)) THEN
            PERFORM psp.refuse_change(target, 'has rows, which would get other keys',
                                      'Say so in a statement that names the table and the columns.');
        ELSIF psp.are_rows_new(target, was, now) OR psp.has_new_partitions(target, was) THEN
            INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), follow_changed.table_id) ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    PERFORM psp.note_older_images(table_id, target, version, was, now);
END $$;

-- The number of the captured table of which this one was a partition. PostgreSQL leaves it the triggers that do not come from the whole.
CREATE FUNCTION psp.whole_of_former_partition(target regclass) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT substring(encode(t.tgargs, 'escape') FROM '^[0-9]+')::integer
              FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = 'psp_truncate');
END $$;

CREATE FUNCTION psp.follow_created(target regclass, here boolean) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    table_id CONSTANT integer := psp.take_number();
BEGIN
    PERFORM psp.check_table(target);
    IF here AND psp.has_rows(target) THEN
        -- Rows of a partition leave the whole.
        PERFORM psp.capture_leaving_rows(target, psp.capture_facts(format('%I.%I', t.schema_name, t.table_name)::regclass, t.table_id, '{}'))
           FROM psp.tables t WHERE t.table_id = psp.whole_of_former_partition(target);
        INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), table_id);
    END IF;
    PERFORM psp.create_capture(target, table_id, psp.keep_guard_numbers(target, '{}'));
    IF NOT here THEN
        EXECUTE format('SELECT psp.apply_clear_%s()', table_id);  -- its rows come from where the statement ran first
    END IF;
    RETURN table_id;
END $$;

CREATE FUNCTION psp.has_key(target oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = target AND i.indisprimary AND i.indisvalid)
$$;

CREATE FUNCTION psp.check_key_has_come() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM psp.tables_without_key t WHERE (t.xid, t.relation) = (NEW.xid, NEW.relation)) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: table %s has no primary key', NEW.relation::regclass),
            HINT = 'Add a primary key, by this statement or a later one of the same transaction.';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER psp_check_key_has_come AFTER INSERT ON psp.tables_without_key
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION psp.check_key_has_come();

-- Elsewhere the table has no rows until its key has come and the statement has ended: a foreign key to them would fail there.
CREATE FUNCTION psp.check_not_referenced(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM psp.tables_without_key t WHERE (t.xid, t.relation) = (pg_current_xact_id(), target))
       AND EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = target AND k.conrelid <> target)
       AND psp.has_rows(target) THEN
        PERFORM psp.refuse_change(target, 'has rows and foreign keys to it, and has had no primary key in this transaction until now',
                                  'Make foreign keys by statements after that of the primary key. '
                                  'ALTER TABLE … DROP CONSTRAINT …, ADD PRIMARY KEY … takes another one in one statement.');
    END IF;
END $$;

-- Elsewhere its rows come from where the statement ran first, when it has a key: rows made here could be others, and stand in the key's way.
CREATE FUNCTION psp.wait_for_key(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.tables_without_key VALUES (pg_current_xact_id(), target) ON CONFLICT DO NOTHING;
    IF current_setting('session_replication_role') = 'replica' THEN
        PERFORM psp.read_as_owner(target, format('DELETE FROM %s RETURNING NULL::pg_catalog.bytea', target));
    ELSIF psp.whole_of_former_partition(target) IS NOT NULL THEN  -- nobody would tell that its rows have left the whole
        PERFORM psp.refuse_change(target, 'is a partition no more, and has no primary key', 'Detach it by a statement of its own.');
    END IF;
END $$;

CREATE FUNCTION psp.follow_tables(version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed CONSTANT jsonb := (
        SELECT coalesce(jsonb_agg(jsonb_build_object('table_id', c.table_id, 'target', c.target,
                                                     'was', psp.noted_definition(c.table_id), 'effort', c.effort)
                                  ORDER BY c.table_id), '[]')
          FROM psp.changed_tables() c);
    change  jsonb;
    target  regclass;
    numbers integer[] := '{}';
BEGIN
    IF here THEN  -- one that was captured does not become a local one that is full here and empty elsewhere
        PERFORM psp.check_table(c.oid) FROM pg_class c
          WHERE c.relpersistence = 'u'
            AND (c.oid IN (SELECT (e.value ->> 'target')::oid FROM jsonb_array_elements(changed) e)
                 OR c.oid IN (SELECT t.relation FROM psp.tables_without_key t WHERE t.xid = pg_current_xact_id()));
    END IF;
    -- All go before one comes back: two may have exchanged their names. A table without a key passes for one that is gone.
    PERFORM psp.drop_capture((c.value ->> 'table_id')::integer) FROM jsonb_array_elements(changed) c
      WHERE c.value -> 'effort' = '2' OR NOT psp.has_key((c.value ->> 'target')::oid);
    FOR change IN SELECT c.value FROM jsonb_array_elements(changed) c LOOP
        target := (change ->> 'target')::oid::regclass;
        IF target IS NULL OR NOT psp.has_key(target) THEN
            DELETE FROM psp.older_images i WHERE i.table_id = (change ->> 'table_id')::integer;
        ELSIF change -> 'effort' <> '2' THEN
            PERFORM psp.follow_renewed((change ->> 'table_id')::integer, target, change -> 'was', (change ->> 'effort')::integer);
        ELSE
            PERFORM psp.follow_changed((change ->> 'table_id')::integer, target, change -> 'was', version, here);
        END IF;
        numbers := numbers || (change ->> 'table_id')::integer;
    END LOOP;
    PERFORM psp.note_new_labels();
    -- As at adoption, what an extension has stays local.
    INSERT INTO psp.guarded_relations (schema_name, relation_name, kind, definition)
    SELECT u.schema_name, u.relation_name, 'left out', '' FROM psp.unknown_relations u
     WHERE EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = u.relation AND e.deptype = 'e')
        ON CONFLICT DO NOTHING;
    FOR target IN
        SELECT u.relation FROM psp.unknown_relations u JOIN pg_class c ON c.oid = u.relation
         WHERE u.kind IN ('r', 'p') AND NOT c.relispartition ORDER BY u.schema_name, u.relation_name
    LOOP
        IF psp.has_key(target) THEN
            numbers := numbers || psp.follow_created(target, here);
        ELSE
            PERFORM psp.wait_for_key(target);
        END IF;
        IF here THEN
            PERFORM psp.check_not_referenced(target);
        END IF;
    END LOOP;
    DELETE FROM psp.tables_without_key t
     WHERE t.xid = pg_current_xact_id()
       AND NOT EXISTS (SELECT FROM psp.unknown_relations u JOIN pg_class c ON c.oid = u.relation
                        WHERE u.relation = t.relation AND NOT c.relispartition);
    IF here THEN
        PERFORM psp.announce_table(n.table_id, CASE WHEN EXISTS (SELECT FROM psp.tables t WHERE t.table_id = n.table_id)
                                                    THEN '00' ELSE '01' END)
           FROM unnest(numbers) n(table_id);
    END IF;
END $$;

-- Sequences, as for tables. What a sequence draws next is no part of the schema.
CREATE FUNCTION psp.follow_sequences(here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    WITH gone AS (DELETE FROM psp.sequences RETURNING *)
    INSERT INTO psp.sequences
    SELECT n.nspname, c.relname, g.base, g.increment, g.stride, g.relation, g.moved_by
      FROM gone g JOIN pg_class c ON c.oid = g.relation JOIN pg_namespace n ON n.oid = c.relnamespace;
    PERFORM psp.note_sequences();
    PERFORM psp.begin_own_commands();
    FOR s IN
        SELECT u.relation::regclass AS name, d.* FROM psp.unknown_relations u JOIN pg_sequence d ON d.seqrelid = u.relation
         ORDER BY u.schema_name, u.relation_name
    LOOP
        PERFORM psp.stride_sequence(s.name, coalesce(pg_sequence_last_value(s.name), s.seqstart - s.seqincrement), s.seqincrement);
    END LOOP;
    PERFORM psp.end_own_commands();
    PERFORM psp.note_sequences();
    IF here THEN
        PERFORM psp.check_sequences();
    END IF;
END $$;

-- After one statement of the change that makes this version of the catalog.
CREATE FUNCTION psp.follow_changes(version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.take_back_grants(),
            psp.follow_tables(version, here),
            psp.follow_truncations(here),
            psp.follow_sequences(here),
            psp.check_all('psp.ddl'),
            psp.check_owners('psp.ddl'),
            psp.check_functions('psp.ddl');
    DELETE FROM psp.touched_relations WHERE xid = pg_current_xact_id();
    UPDATE psp.identity SET catalog_version = version;
END $$;

-- ---- before a statement --------------------------------------------------------------------------------------------------------

-- The words of a text, in which psp.is_named looks for a name.
CREATE FUNCTION psp.words_of(statement text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT regexp_split_to_array(lower(statement), '[^[:alnum:]_$]+')
$$;

CREATE FUNCTION psp.is_named(name name, statement text, words text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN name ~ '[^[:alnum:]_$]' THEN position(lower(name) IN lower(statement)) > 0 ELSE lower(name) = ANY (words) END;
END $$;

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
CREATE FUNCTION psp.relations_with_labels_in(statement text) RETURNS oid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    IF NOT words @> '{rename,value}' THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT i.indrelid FROM psp.captured_relations r JOIN pg_index i ON i.indrelid = r.relation AND i.indisprimary
                   JOIN psp.column_facts f ON f.relation = i.indrelid AND f.number = ANY (i.indkey) JOIN pg_type e ON e.oid = ANY (f.leaves)
                  WHERE e.typtype = 'e' AND psp.is_named(e.typname, statement, words));
END $$;

-- A statement that may give the rows of a table other keys, by its words: the rows are captured as deleted, and after the statement as
-- they are then.
CREATE FUNCTION psp.capture_old_keys(statement text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    client     CONSTANT text := pg_client_encoding();
    named      CONSTANT oid[] := psp.relations_in(statement);
    relabelled CONSTANT oid[] := psp.relations_with_labels_in(statement);
    facts      jsonb;
BEGIN
    IF statement !~* '\malter\M.*\m(type|primary)\M' THEN
        RETURN;
    END IF;
    PERFORM set_config('client_encoding', 'UTF8', true);  -- binary text is in it
    FOR facts IN
        SELECT psp.capture_facts(r.relation, r.table_id, '{}')
          FROM psp.captured_relations r JOIN pg_class c ON c.oid = r.relation
         WHERE r.relation = ANY (named || relabelled) AND NOT c.relispartition AND psp.has_rows(r.relation)
    LOOP
        CONTINUE WHEN statement !~* '\mprimary\M' AND (facts ->> 'relation')::regclass <> ALL (relabelled)
                      AND NOT EXISTS (SELECT FROM jsonb_array_elements(facts -> 'key_columns') k
                                       WHERE position(lower(k.value ->> 'name') IN lower(statement)) > 0);
        INSERT INTO psp.write_set (xid, table_id, op, payload)
        SELECT pg_current_xact_id(), (facts ->> 'table_id')::integer, 'd', e
          FROM psp.read_as_owner((facts ->> 'relation')::regclass,
                                 format('SELECT record_send(ROW(%s)) FROM %s r', psp.key_of(facts, 'r'), facts ->> 'relation')) e;
        INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), (facts ->> 'table_id')::integer) ON CONFLICT DO NOTHING;
    END LOOP;
    PERFORM set_config('client_encoding', client, true);
END $$;

-- Before a statement that drops tables: the partitions in its text that have no rows. For the primary, rows of a partition are some of the
-- whole's, and a DROP would leave them there, so psp.on_drop lets no others go. Locked as PostgreSQL is about to. It makes
-- functions of other roles (psp.read_as_owner), so it is a superuser's.
CREATE FUNCTION psp.note_empty_partitions(statement text, role name) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    part record;
BEGIN
    DELETE FROM psp.touched_relations t WHERE t.xid = pg_current_xact_id_if_assigned() AND t.how = 'empty';
    IF statement !~* '\mdrop\s+table\M' THEN
        RETURN;
    END IF;
    FOR part IN
        SELECT c.oid::regclass AS name, i.inhparent::regclass AS whole
          FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.oid = ANY (psp.relations_in(statement)) AND c.relispartition
           AND (pg_has_role(role, c.relowner, 'USAGE') OR pg_has_role(role, n.nspowner, 'USAGE'))
         ORDER BY c.oid
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', part.whole);
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', part.name);
        IF NOT psp.has_rows(part.name) THEN
            INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), t.relid, 'empty' FROM pg_partition_tree(part.name) t;
        END IF;
    END LOOP;
END $$;

-- What PostgreSQL would not let a statement do because of psp's triggers, on the tables whose names are in its text. All of it is as
-- before after psp.follow_changes.
--   A column of the key gets no other type, and is not dropped, while a trigger names it.
--   A partition gets triggers of the whole; who creates it must be allowed to call their functions.
--   A table cannot become a partition while it has triggers of the same names.
CREATE FUNCTION psp.prepare_tables(statement text, role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    named oid[];
    found record;
BEGIN
    IF statement !~* 'alter|partition' THEN
        RETURN;
    END IF;
    named := psp.relations_in(statement);
    PERFORM psp.begin_own_commands();
    FOR found IN
        SELECT t.tgname, c.oid::regclass AS target
          FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid
         WHERE c.oid = ANY (named) AND t.tgparentid = 0
           AND CASE WHEN t.tgname = 'psp_capture_rekey' AND t.tgattr <> '' AND statement ~* '\m(type|drop)\M' THEN true
                    WHEN c.relkind <> 'p' THEN t.tgname ~ '^psp_capture_' AND statement ~* 'attach' END
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.target);
    END LOOP;
    FOR found IN
        SELECT p.oid::regprocedure AS function
          FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE c.oid = ANY (named) AND c.relkind = 'p' AND p.pronamespace = 'psp'::regnamespace AND p.proname ~ '^capture_[0-9]+_'
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
