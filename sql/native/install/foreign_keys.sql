-- The foreign keys between captured tables, in psp's numbers. What a row refers to is a number and a key. Where the foreign key refers
-- to the primary key, they are the parent's number and the bytes of its row key; else the number of the unique index's guard
-- and the bytes of its guard key. docs/decisions/36.
--
-- psp.tables has them as they were when the capture was made, with SQL about a row called r. complete: whether the row refers to one.
--   foreign_keys  of the child: [{constraint, refers_to, columns, key, complete, may_change, members}]. columns: in the order of the index
--                 that it refers to; may_change: an update may change them without naming them; members: as of a guard (psp.capture_facts)
--   referenced    of the parent: [{number, columns, key, complete, lossy, may_change, is_coarse, links}]. lossy: columns whose different
--                 values may have one key; is_coarse: rows refer to the coarse key, too; links: which relations refer to which,
--                 partitions among them
-- The coarse key, the empty record, stands for all keys of a number. Rows refer to it whose types have an equality that psp cannot
-- turn into equal bytes.

-- SQL of one value of the key. The parent's own rows and those that refer to them have the same.
CREATE FUNCTION psp.referenced_value(member psp.index_column_facts, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    member.definition := value;
    RETURN CASE WHEN member.normalise IN ('none', 'base') THEN value ELSE psp.guard_expression(member) END;
END $$;

CREATE FUNCTION psp.coarse_key() RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'pg_catalog.record_send(ROW())'
$$;

-- The two columns of psp.tables as they would be now; of these tables, or of all: null. (IS DISTINCT FROM NULL: a composite value of NULLs
-- refers to a row, too.)
CREATE FUNCTION psp.reference_facts(only_tables integer[]) RETURNS TABLE (table_id integer, foreign_keys jsonb, referenced jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    only_relations CONSTANT oid[] := ARRAY(
        SELECT r.relation FROM psp.tables t
         CROSS JOIN LATERAL (SELECT to_regclass(format('%I.%I', t.schema_name, t.table_name)) AS target) n
         CROSS JOIN LATERAL (SELECT n.target UNION SELECT p.relid FROM pg_partition_tree(n.target) p) r(relation)
         WHERE t.table_id = ANY (only_tables));
BEGIN
    RETURN QUERY WITH tables AS MATERIALIZED (
        SELECT t.table_id, t.guards, to_regclass(format('%I.%I', t.schema_name, t.table_name))::oid AS relation FROM psp.tables t
    ), constraints AS MATERIALIZED (
        SELECT k.oid, k.conname, k.conparentid, k.conrelid, k.confrelid, coalesce(pg_partition_root(k.conindid), k.conindid)::oid AS index,
               coalesce(pg_partition_root(k.conrelid), k.conrelid)::oid AS child
          FROM pg_constraint k
         WHERE k.contype = 'f' AND (only_tables IS NULL OR k.conrelid = ANY (only_relations) OR k.confrelid = ANY (only_relations))
           AND coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true)
    ), keys AS MATERIALIZED (
        SELECT k.oid AS foreign_key, k.conname AS name, k.conparentid = 0 AS is_whole, c.table_id AS child, p.table_id AS parent, k.index,
               n.number, format('%s %s', k.conrelid, k.confrelid) AS link
          FROM constraints k JOIN pg_index i ON i.indexrelid = k.index JOIN pg_class x ON x.oid = k.index
          JOIN tables c ON c.relation = k.child
          JOIN tables p ON p.relation = i.indrelid
         CROSS JOIN LATERAL (
            SELECT CASE WHEN i.indisprimary THEN p.table_id
                        ELSE (SELECT (g.value ->> 'guard_id')::integer FROM jsonb_array_elements(p.guards) g
                               WHERE g.value ->> 'index' = x.relname) END) n(number)
         WHERE n.number IS NOT NULL AND (only_tables IS NULL OR only_tables && ARRAY[c.table_id, p.table_id])
    ), wholes AS MATERIALIZED (
        SELECT k.foreign_key, k.name, k.child, k.parent, k.number, bool_and(f.value IS NOT NULL) AS is_told,
               jsonb_build_object(
                   'columns', jsonb_agg(f.name ORDER BY f.place),
                   'key', CASE WHEN bool_and(f.value IS NOT NULL)
                               THEN format('pg_catalog.record_send(ROW(%s))',
                                           string_agg(psp.referenced_value(i, format(f.value, v.value)), ', ' ORDER BY f.place))
                               ELSE psp.coarse_key() END,
                   'complete', string_agg(format('(%s) IS DISTINCT FROM NULL', format(coalesce(f.value, '%1$s'), v.value)), ' AND '
                                          ORDER BY f.place),
                   'may_change', bool_or(f.may_change),
                   'members', CASE WHEN bool_and(f.is_same_type AND psp.key_form(i.normalise, i.key_type) IS NOT NULL)
                                   THEN jsonb_agg(jsonb_build_array(f.name, CASE i.normalise WHEN 'none' THEN 'base'
                                                                            ELSE psp.key_form(i.normalise, i.key_type) END)
                                                  ORDER BY f.place) END) AS of_child,
               jsonb_build_object(
                   'columns', jsonb_agg(f.parent_name ORDER BY f.place),
                   'key', format('pg_catalog.record_send(ROW(%s))',
                                 string_agg(psp.referenced_value(i, format(f.parent_value, v.parent_value)), ', ' ORDER BY f.place)),
                   'complete', string_agg(format('%s IS DISTINCT FROM NULL', v.parent_value), ' AND ' ORDER BY f.place),
                   'lossy', coalesce(jsonb_agg(f.parent_name ORDER BY f.place) FILTER (WHERE f.is_lossy), '[]'),
                   'may_change', bool_or(f.parent_may_change)) AS of_parent
          FROM keys k
          -- OFFSET 0: of these only. To know all foreign keys of a database takes long.
         CROSS JOIN LATERAL (SELECT * FROM psp.foreign_key_column_facts a WHERE a.foreign_key = k.foreign_key OFFSET 0) f
          JOIN psp.index_column_facts i ON i.index = k.index AND i.place = f.place
         CROSS JOIN LATERAL (SELECT format('r.%I', f.name), format('r.%I', f.parent_name)) v(value, parent_value)
         WHERE k.is_whole
         GROUP BY 1, 2, 3, 4, 5
    )
    SELECT t.table_id,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('constraint', w.name, 'refers_to', w.number) || w.of_child ORDER BY w.name), '[]')
              FROM wholes w WHERE w.child = t.table_id),
           (SELECT coalesce(jsonb_agg(r.facts ORDER BY r.number), '[]')
              FROM (SELECT w.number, jsonb_build_object(
                                         'number', w.number, 'is_coarse', NOT bool_and(w.is_told),
                                         'links', (SELECT jsonb_agg(DISTINCT k.link) FROM keys k WHERE k.number = w.number))
                                     || min(w.of_parent::text)::jsonb AS facts  -- the same in all
                      FROM wholes w WHERE w.parent = t.table_id GROUP BY w.number) r)
      FROM tables t WHERE only_tables IS NULL OR t.table_id = ANY (only_tables);
END $$;

-- Writes them down, and adds them to the facts of the tables.
CREATE FUNCTION psp.with_references(facts jsonb[]) RETURNS SETOF jsonb
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.tables t SET foreign_keys = r.foreign_keys, referenced = r.referenced
      FROM unnest(facts) f
      JOIN psp.reference_facts(ARRAY(SELECT (g ->> 'table_id')::integer FROM unnest(facts) g)) r
           ON r.table_id = (f ->> 'table_id')::integer
     WHERE t.table_id = r.table_id
    RETURNING f || jsonb_build_object('foreign_keys', t.foreign_keys, 'referenced', t.referenced)
$$;

-- ---- SQL of the capture -------------------------------------------------------------------------------------------------------

-- Whether an update gives these columns other values. *<> compares bytes: some types have no equality.
CREATE FUNCTION psp.are_changed(columns jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('ROW(%s)::pg_catalog.record OPERATOR(pg_catalog.*<>) ROW(%s)::pg_catalog.record',
                  psp.name_list(columns, 'OLD.'), psp.name_list(columns, 'NEW.'))
$$;

-- SELECT of the key to which each row refers by one foreign key (op 's').
CREATE FUNCTION psp.select_shares(foreign_key jsonb, source text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN psp.fill($template$
    SELECT psp_scope.x, {refers_to}, 's', pg_catalog.record_send(ROW({key})) FROM {source} r WHERE {complete}$template$,
                    foreign_key || jsonb_build_object('source', source));
END $$;

-- Those of new rows, each with something before and after it.
CREATE FUNCTION psp.shares_of_new_rows(facts jsonb, source text, before text, after text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(string_agg(E'\n    ' || before || psp.select_shares(k.value, source) || after, '' ORDER BY k.ordinality), '')
              FROM jsonb_array_elements(facts -> 'foreign_keys') WITH ORDINALITY k);
END $$;

-- Those of a row that was updated, where it refers to another key.
CREATE FUNCTION psp.capture_new_shares(facts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT string_agg(format(E'\n    IF %s THEN\n    INSERT INTO psp.write_set%s;\n    END IF;', psp.are_changed(k.value -> 'columns'),
                                     psp.select_shares(k.value, '(SELECT NEW.*)')), '' ORDER BY k.ordinality)
              FROM jsonb_array_elements(facts -> 'foreign_keys') WITH ORDINALITY k);
END $$;

-- The keys that a row had and has no more (op 'k'), and what could be seen when the first one ended (psp.note_ending).
CREATE FUNCTION psp.capture_endings(facts jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    template CONSTANT text := $template$
    IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR {lossy_change}
       (SELECT {key} FROM (SELECT OLD.*) r) OPERATOR(pg_catalog.<>) (SELECT {key} FROM (SELECT NEW.*) r) THEN
        INSERT INTO psp.write_set
        SELECT psp_scope.x, {number}, 'k', pg_catalog.record_send(ROW(psp_k.psp_key))
          FROM (SELECT OLD.*) r CROSS JOIN LATERAL (VALUES ({key}){coarse}) psp_k(psp_key) WHERE {complete};
        IF FOUND THEN
            PERFORM psp.note_ending(psp_scope.x, {number});
        END IF;
    END IF;$template$;
BEGIN
    RETURN (SELECT string_agg(psp.fill(template, r.value || jsonb_build_object(
                       'lossy_change', CASE WHEN r.value -> 'lossy' <> '[]' THEN psp.are_changed(r.value -> 'lossy') || ' OR' ELSE '' END,
                       'coarse', CASE WHEN (r.value ->> 'is_coarse')::boolean THEN format(', (%s)', psp.coarse_key()) ELSE '' END)),
                       '' ORDER BY r.ordinality)
              FROM jsonb_array_elements(facts -> 'referenced') WITH ORDINALITY r);
END $$;

-- What can be seen before PostgreSQL looks for rows that refer to the key (op 'w'), once in a transaction. Rows of other servers that are
-- applied later are not among those. Their transactions are certified against the ended key by this snapshot, not by that of COMMIT,
-- which may have them.
CREATE FUNCTION psp.note_ending(x xid8, number integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.commit_intent i SET ended = true WHERE i.xid = x AND NOT i.ended;
    IF FOUND THEN
        INSERT INTO psp.write_set (xid, table_id, op, payload)
        SELECT x, number, 'w', convert_to(format('%s %s', s.watermark, coalesce(nullif(array_to_string(s.seen, ','), ''), '-')), 'UTF8')
          FROM psp.snapshot() s;
    END IF;
END $$;

-- The columns after OF in a trigger on updates; empty: it sees all updates.
CREATE FUNCTION psp.of_columns(keys jsonb, key_may_change boolean) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN NOT key_may_change AND NOT bool_or((k.value ->> 'may_change')::boolean)
                THEN ' OF ' || string_agg(DISTINCT quote_ident(c.name), ', ') ELSE '' END
      FROM jsonb_array_elements(keys) k CROSS JOIN LATERAL jsonb_array_elements_text(k.value -> 'columns') c(name)
$$;

-- The capture functions and triggers that only children and parents have. PSP_ended is called before PostgreSQL's own triggers, since these
-- are called in the order of their names.
CREATE FUNCTION psp.create_reference_triggers(facts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    may_change CONSTANT boolean := facts ->> 'key_may_change';
    rest       CONSTANT jsonb := CASE WHEN psp.uses_module() THEN psp.left_to_sql(facts) ELSE facts END;
    template   CONSTANT text := 'CREATE OR REPLACE TRIGGER {name} AFTER {events} ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()';
    needed     record;
    function   text;
BEGIN
    FOR needed IN
        SELECT 'share' AS suffix, 'psp_capture_share' AS name, 'UPDATE' AS events, rest -> 'foreign_keys' AS keys,
               psp.capture_new_shares(rest) AS statements
        UNION ALL
        SELECT 'ended', '"PSP_ended"', 'DELETE OR UPDATE', facts -> 'referenced', psp.capture_endings(facts)
    LOOP
        function := format('psp.capture_%s_%s', facts ->> 'table_id', needed.suffix);
        IF needed.keys <> '[]' THEN
            PERFORM psp.take_from_all(ARRAY[psp.create_capture_function(facts, needed.suffix, needed.statements)], 'psp_functions'::regrole);
            EXECUTE psp.fill(template, jsonb_build_object(
                'name', needed.name, 'events', needed.events || psp.of_columns(needed.keys, may_change), 'table', facts -> 'relation',
                'function', function));
        ELSE
            PERFORM psp.drop_capture_function(function);
        END IF;
    END LOOP;
END $$;

-- ---- after a schema change --------------------------------------------------------------------------------------------------

-- These tables, and those at the other ends of their foreign keys.
CREATE FUNCTION psp.with_other_ends(tables integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN ARRAY(
        WITH captured AS MATERIALIZED (SELECT r.relation, r.table_id FROM psp.captured_relations r)
        SELECT unnest(tables)
        UNION
        SELECT CASE WHEN c.table_id = ANY (tables) THEN p.table_id ELSE c.table_id END
          FROM pg_constraint k JOIN captured c ON c.relation = k.conrelid JOIN captured p ON p.relation = k.confrelid
         WHERE k.contype = 'f' AND tables && ARRAY[c.table_id, p.table_id]);
END $$;

-- Which of these tables have foreign keys, or are referred to by some, that are not what was noted: they are captured as these are now.
-- Returns their numbers. By now all tables have theirs.
CREATE FUNCTION psp.follow_references(tables integer[]) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found   record;
    numbers integer[] := '{}';
BEGIN
    FOR found IN
        SELECT t.table_id, to_regclass(format('%I.%I', t.schema_name, t.table_name)) AS target,
               psp.guard_ids_of(t.guards) AS guard_ids
          FROM psp.tables t JOIN psp.reference_facts(tables) r USING (table_id)
         WHERE (t.foreign_keys, t.referenced) IS DISTINCT FROM (r.foreign_keys, r.referenced)
         ORDER BY t.table_id
    LOOP
        PERFORM psp.renew_capture(found.target, found.table_id, found.guard_ids);
        numbers := numbers || found.table_id;
    END LOOP;
    RETURN numbers;
END $$;

-- The tables at both ends of foreign keys of which the statement has written one again: its rows may have other keys now, or refer to others,
-- which no trigger has captured. Both ends count as changed.
CREATE FUNCTION psp.ends_of_rewritten() RETURNS integer[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN ARRAY(
        WITH rewritten AS MATERIALIZED (
            SELECT r.table_id FROM psp.touched_relations w JOIN psp.captured_relations r USING (relation)
             WHERE w.xid = pg_current_xact_id() AND w.how = 'rewritten'
        ), ends AS MATERIALIZED (
            SELECT DISTINCT c.table_id AS child, p.table_id AS parent
              FROM psp.tables c CROSS JOIN jsonb_array_elements(c.foreign_keys) k
              JOIN (psp.tables p CROSS JOIN jsonb_array_elements(p.referenced) n) ON n.value -> 'number' = k.value -> 'refers_to'
        )
        SELECT e.parent FROM ends e JOIN rewritten r ON r.table_id = e.child
        UNION
        SELECT e.child FROM ends e JOIN rewritten r ON r.table_id = e.parent);
END $$;
