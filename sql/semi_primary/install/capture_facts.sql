-- What the capture of a table is made from, read from the catalog at this moment; both modes. The views of sql/facts have the
-- rules: which encoding, how a key is made equal in bytes, which indexes take guards.

-- SQL for the text that a type's output function gives. A cast of a user's type may be a user's code.
CREATE FUNCTION psp.output_text(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN pg_catalog.format('CASE WHEN pg_catalog.num_nulls(%1$s) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.concat(%1$s) END', value);
END $$;

-- SQL that normalises `value`, for all that a primary key can have. -0 becomes 0, and every NaN the same NaN.
CREATE FUNCTION psp.normalised(how text, value text, type text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE how
        WHEN 'numeric' THEN format('pg_catalog.trim_scale(%s::pg_catalog.numeric)', value)
        WHEN 'float' THEN format('CASE WHEN %1$s OPERATOR(pg_catalog.=) ''NaN''::%2$s THEN ''NaN''::%2$s '
                                 'ELSE %1$s OPERATOR(pg_catalog.+) 0::%2$s END',
                                 value, CASE type WHEN 'real' THEN 'pg_catalog.float4' ELSE 'pg_catalog.float8' END)
        -- The cast takes trailing blanks off, which bpchar takes for nothing. Others are enums.
        WHEN 'text' THEN CASE type WHEN 'bpchar' THEN value || '::pg_catalog.text' ELSE psp.output_text(value) END
        WHEN 'base' THEN value || '::' || type
        ELSE value END;
END $$;

-- SQL: a value is not null. (IS NOT NULL says no of a composite value with a null in it.)
CREATE FUNCTION psp.is_there(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.=) 0', value);
END $$;

-- SQL for the value of an index's column in a guard key; column names are bare.
CREATE FUNCTION psp.guard_expression(member psp.index_column_facts) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE member.normalise
        WHEN 'hash' THEN format('%s(%s%s, 0)', member.hash_function, member.definition, ' COLLATE ' || member.collation)
        WHEN 'constant' THEN format('CASE WHEN %s THEN 0 END', psp.is_there(member.definition))
        ELSE psp.normalised(member.normalise, member.definition, member.key_type) END;
END $$;

-- How the server module writes a value of a key (capture_module/values.c), for the ways of normalising that it knows; otherwise null.
CREATE FUNCTION psp.key_form(how text, type text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE how WHEN 'text' THEN CASE type WHEN 'bpchar' THEN 'trimmed' ELSE 'output' END
                    WHEN 'hash' THEN NULL WHEN 'constant' THEN NULL ELSE how END;
END $$;

-- SQL of a row trigger of a table with partitions: whether the row is in this one, or in a part of it. Null: it is the whole table.
CREATE FUNCTION psp.is_in_partition(target oid, partition oid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN partition = target THEN NULL
                WHEN EXISTS (SELECT FROM pg_class c WHERE c.oid = partition AND c.relkind = 'p')
                THEN format('EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(TG_RELID) psp_p WHERE psp_p.relid OPERATOR(pg_catalog.=) %s::pg_catalog.oid)',
                            partition)
                ELSE format('TG_RELID OPERATOR(pg_catalog.=) %s::pg_catalog.oid', partition) END;
END $$;

-- The definitions of tables under their numbers; guard_ids: of each table {index: number}. All tables in one query, since to begin it takes
-- longer than what it does for a table.
--   table_id, schema_name, table_name
--   relation        the name, quoted, with the schema
--   search_path     under which the owner works with it
--   relations       the table, and every partition of it, quoted
--   columns         [{name, type, encoding, checked_as, by_output}] in the order of the image; see type_facts
--   key_columns     [{name, type, normalise, look}] normalise: see index_column_facts; look: the type as which psp.look_N reads the
--                   value's text, none: it has no such text
--   guards          [{guard_id, index, partition, columns, expressions, others, raw_columns, arguments, is_plain, predicate, nulls_not_distinct, members}]
--                   partition: SQL of a trigger: the row is in the partition to which the index belongs; null: it is the whole table's
--                   columns: text for messages; expressions: of the key; others: what an exclusion constraint compares by another
--                   operator than equality, which is no part of the key; arguments: [{name, type}] of psp.guard_N, empty: there
--                   is none; is_plain: no expressions and no predicate; members: [[column, form]] if the server module can
--                   write the key (psp.key_form), otherwise null
--   partitioned     row triggers instead of statement triggers: MERGE, which moves a row to another partition, fires no statement
--                   trigger for that, and has it in no transition table
--   key_may_change  an update may change the key without naming its columns: triggers of its own, or computed keys
CREATE FUNCTION psp.facts_of_tables(targets oid[], table_ids integer[], guard_ids jsonb[]) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH search_paths AS MATERIALIZED (
        SELECT h.owner, h.home, psp.search_path_of(h.owner, h.home) AS path
          FROM (SELECT DISTINCT c.relowner, c.relnamespace FROM pg_class c WHERE c.oid = ANY (targets)) h(owner, home)
    )
    SELECT jsonb_build_object(
        'table_id', w.table_id, 'schema_name', n.nspname, 'table_name', c.relname,
        'relation', format('%I.%I', n.nspname, c.relname),
        'search_path', s.path,
        'partitioned', c.relkind = 'p',
        'relations', (SELECT jsonb_agg(format('%I.%I', pn.nspname, p.relname) ORDER BY p.oid <> w.target, p.oid)
                        FROM pg_class p JOIN pg_namespace pn ON pn.oid = p.relnamespace WHERE p.oid = ANY (w.tree)),
        'columns', (
            SELECT jsonb_agg(jsonb_build_object(
                       'name', f.name, 'type', f.type_name, 'encoding', f.encoding, 'checked_as', f.checked_as,
                       'by_output', f.by_output) ORDER BY f.number)
              FROM psp.column_facts f WHERE f.relation = w.target AND NOT f.generated),
        'key_columns', (
            SELECT jsonb_agg(jsonb_build_object(
                       'name', a.attname, 'type', f.key_type,
                       -- What is generated is not in the image, so the daemon cannot take it from there.
                       'normalise', CASE WHEN f.generated AND f.normalise = 'none' THEN 'base' ELSE f.normalise END,
                       'look', CASE WHEN f.has_text THEN f.key_type END) ORDER BY f.place)
              FROM pg_index i JOIN psp.index_column_facts f ON f.index = i.indexrelid
              JOIN pg_attribute a ON a.attrelid = w.target AND a.attnum = f.number
             WHERE i.indrelid = w.target AND i.indisprimary),
        'guards', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'guard_id', (w.guard_ids ->> i.guard_name)::integer, 'index', i.guard_name,
                       'partition', psp.is_in_partition(w.target, i.relation), 'columns', f.definitions,
                       'expressions', f.expressions, 'others', f.others, 'raw_columns', r.names,
                       'arguments', CASE WHEN i.calls_users_code THEN r.arguments ELSE '[]' END,
                       'is_plain', i.predicate IS NULL AND f.is_plain, 'predicate', i.predicate,
                       'nulls_not_distinct', i.nulls_not_distinct,
                       'members', CASE WHEN i.predicate IS NULL AND f.others = '[]' AND i.relation = w.target THEN f.members END)
                       ORDER BY i.guard_name), '[]')
              FROM unnest(w.tree) p(relation) CROSS JOIN LATERAL (SELECT * FROM psp.index_facts f WHERE f.relation = p.relation AND f.guarded OFFSET 0) i
             CROSS JOIN LATERAL (
                SELECT coalesce(string_agg(f.definition, ', ' ORDER BY f.place) FILTER (WHERE f.operator_class IS NOT NULL), '') AS definitions,
                       bool_and(f.number > 0) AS is_plain,
                       coalesce(jsonb_agg(psp.guard_expression(f) ORDER BY f.place) FILTER (WHERE f.operator_class IS NOT NULL), '[]') AS expressions,
                       coalesce(jsonb_agg(f.definition ORDER BY f.place) FILTER (WHERE f.operator_class IS NULL), '[]') AS others,
                       CASE WHEN bool_and(f.number > 0 AND psp.key_form(f.normalise, f.key_type) IS NOT NULL)
                            THEN jsonb_agg(jsonb_build_array(a.attname, psp.key_form(f.normalise, f.key_type)) ORDER BY f.place) END AS members
                  FROM psp.index_column_facts f LEFT JOIN pg_attribute a ON a.attrelid = i.relation AND a.attnum = f.number
                 WHERE f.index = i.index) f
             CROSS JOIN LATERAL (
                SELECT coalesce(jsonb_agg(a.attname ORDER BY a.attnum), '[]') AS names,
                       jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
                                 ORDER BY a.attnum) AS arguments
                  FROM pg_attribute a WHERE a.attrelid = i.relation AND a.attnum = ANY (i.referenced)) r),
        'key_may_change', EXISTS (SELECT FROM psp.trigger_facts t WHERE t.relation = ANY (w.tree))
                          OR EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = w.target AND a.attnum = ANY (i.indkey)
                                      WHERE i.indrelid = w.target AND i.indisprimary AND a.attgenerated <> ''))
      FROM (SELECT u.*, ARRAY(SELECT u.target UNION SELECT t.relid FROM pg_partition_tree(u.target) t) AS tree
              FROM unnest(targets, table_ids, guard_ids) u(target, table_id, guard_ids)) w
      JOIN pg_class c ON c.oid = w.target JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN search_paths s ON (s.owner, s.home) = (c.relowner, c.relnamespace)
     ORDER BY w.table_id;
END $$;

-- Of one table.
CREATE FUNCTION psp.capture_facts(target oid, table_id integer, guard_ids jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    facts jsonb;
BEGIN
    SELECT f INTO STRICT facts FROM psp.facts_of_tables(ARRAY[target], ARRAY[table_id], ARRAY[guard_ids]) f;
    RETURN facts;
END $$;


-- Writes a definition down, in place of the one that there is.
CREATE FUNCTION psp.write_definition(facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
#variable_conflict use_column
DECLARE
    target CONSTANT regclass := facts ->> 'relation';
    wrong  text;
BEGIN
    IF facts -> 'key_columns' = 'null' THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('psp: table %s has no primary key', target),
            HINT = 'Add a primary key.';
    END IF;
    IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = target AND i.indisprimary AND i.indisexclusion) THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: the primary key of table %s has WITHOUT OVERLAPS', target),
            DETAIL = 'Rows are certified by equal keys, and periods overlap without being equal.',
            HINT = 'Use another primary key, and UNIQUE (… WITHOUT OVERLAPS).';
    END IF;
    SELECT k.value ->> 'name' INTO wrong FROM jsonb_array_elements(facts -> 'key_columns') k
     WHERE k.value ->> 'normalise' IN ('hash', 'constant');
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: column %I of table %s cannot be in a primary key', wrong, target),
            DETAIL = 'Equal values of its type may have different bytes.', HINT = 'Use a key of another type.';
    END IF;
    SELECT g.value ->> 'index' INTO wrong FROM jsonb_array_elements(facts -> 'guards') g WHERE g.value -> 'guard_id' = 'null';
    IF FOUND THEN
        RAISE EXCEPTION 'psp: index % of table % has no number', wrong, target;
    END IF;
    INSERT INTO psp.tables (table_id, schema_name, table_name, columns, key_columns, guards)
    SELECT (facts ->> 'table_id')::integer, facts ->> 'schema_name', facts ->> 'table_name',
           (SELECT jsonb_agg(c.value - '{checked_as,by_output}'::text[] ORDER BY c.ordinality)
              FROM jsonb_array_elements(facts -> 'columns') WITH ORDINALITY c),
           (SELECT jsonb_agg(k.value - 'look' ORDER BY k.ordinality)
              FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY k),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('guard_id', g.value -> 'guard_id', 'index', g.value -> 'index',
                                                         'columns', g.value -> 'columns') ORDER BY g.ordinality), '[]')
              FROM jsonb_array_elements(facts -> 'guards') WITH ORDINALITY g)
        ON CONFLICT (table_id) DO UPDATE
       SET schema_name = EXCLUDED.schema_name, table_name = EXCLUDED.table_name, columns = EXCLUDED.columns,
           key_columns = EXCLUDED.key_columns, guards = EXCLUDED.guards;
END $$;

-- Writes the definitions of tables down, as they are now; arguments as above. Returns the facts.
CREATE FUNCTION psp.define_tables(targets oid[], table_ids integer[], guard_ids jsonb[]) RETURNS SETOF jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    facts jsonb;
BEGIN
    FOR facts IN SELECT f FROM psp.facts_of_tables(targets, table_ids, guard_ids) f LOOP
        PERFORM psp.write_definition(facts);
        RETURN NEXT facts;
    END LOOP;
END $$;

-- Of one table.
CREATE FUNCTION psp.define_table(target regclass, table_id integer, guard_ids jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    facts jsonb;
BEGIN
    SELECT f INTO STRICT facts FROM psp.define_tables(ARRAY[target::oid], ARRAY[table_id], ARRAY[guard_ids]) f;
    RETURN facts;
END $$;

-- The form of a table's keys and images, by which the primary judges them: writeset/FORMAT.md.
CREATE FUNCTION psp.form_of(table_id integer) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t      psp.tables;
    target oid;
BEGIN
    SELECT * INTO STRICT t FROM psp.tables c WHERE c.table_id = form_of.table_id;
    SELECT c.oid INTO STRICT target FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE (n.nspname, c.relname) = (t.schema_name, coalesce(t.persistent, t.table_name));
    RETURN (SELECT int2send(count(*)::smallint)
                   || coalesce(string_agg(int4send(f.type::integer) || int4send(f.modifier) || set_byte(decode('00', 'hex'), 0, (a.attnotnull AND NOT v.may_lack)::integer),
                                          '' ORDER BY c.ordinality), '')
              FROM jsonb_array_elements(t.columns) WITH ORDINALITY c
              JOIN pg_attribute a ON (a.attrelid, a.attname) = (target, c.value ->> 'name') AND NOT a.attisdropped
              JOIN pg_type y ON y.oid = a.atttypid
             -- From PostgreSQL 18 on, NOT NULL NOT VALID permits the NULLs that are there.
             CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_constraint x
                                                 WHERE x.conrelid = target AND x.contype = 'n' AND a.attnum = ANY (x.conkey) AND NOT x.convalidated) AS may_lack) v
             -- Domains of PostgreSQL's own have other numbers in other releases.
             CROSS JOIN LATERAL (SELECT CASE WHEN c.value ->> 'encoding' = 'text' THEN 'text'::regtype::oid
                                             WHEN y.typtype = 'd' THEN 0::oid ELSE a.atttypid END AS type,
                                        CASE WHEN c.value ->> 'encoding' = 'text' OR y.typtype = 'd' THEN -1 ELSE a.atttypmod END AS modifier) f)
           || (SELECT int2send(count(*)::smallint)
                      || string_agg(int4send(CASE k.value ->> 'normalise' WHEN 'text' THEN 'text'::regtype
                                                                          ELSE (k.value ->> 'type')::regtype END::oid::integer)
                                    || int4send(coalesce((SELECT c.ordinality - 1 FROM jsonb_array_elements(t.columns) WITH ORDINALITY c
                                                           WHERE c.value -> 'name' = k.value -> 'name'), -1)::integer)
                                    || set_byte(decode('00', 'hex'), 0, array_position('{none,numeric,float,text,base}', k.value ->> 'normalise') - 1),
                                    '' ORDER BY k.ordinality)
                 FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY k);
END $$;

-- The names of all guards of a table.
CREATE FUNCTION psp.guard_names(target oid) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- (OFFSET 0: looked up by the relation. PostgreSQL would read all indexes for each table.)
    RETURN QUERY SELECT f.guard_name FROM (SELECT target UNION SELECT t.relid FROM pg_partition_tree(target) t) p(relation)
                  CROSS JOIN LATERAL (SELECT i.guard_name FROM psp.index_facts i WHERE i.relation = p.relation AND i.guarded OFFSET 0) f
                  ORDER BY f.guard_name;
END $$;

-- Numbers for all guards of a table, from `first` on.
CREATE FUNCTION psp.number_guards(target oid, first integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_object_agg(g.name, first + g.n - 1), '{}') FROM psp.guard_names(target) WITH ORDINALITY g(name, n));
END $$;

-- Numbers the application's permanent tables and their guards from 1, in one space.
CREATE FUNCTION psp.number_tables() RETURNS TABLE (relation oid, table_id integer, guard_ids jsonb)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
     SELECT t.relation, t.next_id - 1 - t.guards, psp.number_guards(t.relation, t.next_id - t.guards)
       FROM (SELECT f.relation, f.guards, (1 + sum(1 + f.guards) OVER (ORDER BY f.schema, f.name))::integer AS next_id
               FROM (SELECT o.relation, o.schema, o.name,
                            (SELECT count(*) FROM psp.guard_names(o.relation))::integer AS guards
                       FROM psp.own_relations o JOIN pg_class c ON c.oid = o.relation
                      WHERE o.kind IN ('r', 'p') AND o.persistence = 'p' AND NOT c.relispartition) f) t
      ORDER BY t.next_id;
END $$;

-- ---- keys and images ----------------------------------------------------------------------------------------------------

-- SQL for the key of the row called `row_name`, as bytes: the normalised key columns.
CREATE FUNCTION psp.key_of(facts jsonb, row_name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('pg_catalog.record_send(ROW(%s))', string_agg(
                       psp.normalised(c.value ->> 'normalise', format('%s.%I', row_name, c.value ->> 'name'), c.value ->> 'type'),
                       ', ' ORDER BY c.ordinality))
              FROM jsonb_array_elements(facts -> 'key_columns') WITH ORDINALITY c);
END $$;

-- SQL for one value in the image: as it is, or as text.
CREATE FUNCTION psp.image_value(col jsonb, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN col ->> 'encoding' = 'binary' THEN value
                WHEN (col ->> 'by_output')::boolean THEN psp.output_text(value)
                WHEN col ->> 'checked_as' IS NOT NULL
                THEN format('CASE WHEN %1$s::pg_catalog.text::%2$s IS NOT NULL THEN %1$s::pg_catalog.text END', value,
                            col ->> 'checked_as')
                ELSE value || '::pg_catalog.text' END;
END $$;

-- SQL for the image of the row called `row_name`, as bytes.
CREATE FUNCTION psp.image_of(facts jsonb, row_name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT format('pg_catalog.record_send(ROW(%s))', string_agg(
                       psp.image_value(c.value, format('%s.%I', row_name, c.value ->> 'name')), ', ' ORDER BY c.ordinality))
              FROM jsonb_array_elements(facts -> 'columns') WITH ORDINALITY c);
END $$;

-- SELECT of a table's rows as rows of the primary's psp.data.
CREATE FUNCTION psp.row_query(facts jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN format('SELECT %s::int4, %s, 0::int8, 0::int4, false, %s FROM %s r', facts ->> 'table_id', psp.key_of(facts, 'r'),
                  psp.image_of(facts, 'r'), facts ->> 'relation');
END $$;
