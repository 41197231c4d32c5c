-- Which tables a statement of a schema change leaves, under which numbers. Rows name their table by its number, so a statement that arrives must leave what it has
-- left where it ran first: it may have passed over something that only this semi-primary has. docs/decisions/87.

-- {"last_number", "tables": {number: [name, digest]}}. Null in place of a table: it is gone.
CREATE FUNCTION psp.tables_left(table_ids integer[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
    SELECT jsonb_build_object(
        'last_number', (SELECT i.last_number FROM psp.identity i),
        'tables', coalesce(jsonb_object_agg(n.table_id, CASE WHEN t.table_id IS NOT NULL THEN jsonb_build_array(
                               format('%I.%I', t.schema_name, t.table_name),
                               encode(sha256(convert_to(concat_ws(' ', t.columns, t.key_columns,
                                             (SELECT jsonb_object_agg(g.value ->> 'guard_id', g.value -> 'index') FROM jsonb_array_elements(t.guards) g)), 'UTF8')), 'hex')) END), '{}'))
      FROM unnest(table_ids) n(table_id) LEFT JOIN psp.tables t USING (table_id)
$$;

-- The tables that the last statement of this transaction has changed. It is not captured yet.
CREATE FUNCTION psp.changed_by_statement() RETURNS integer[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT DISTINCT w.table_id FROM psp.captured w
                  WHERE w.xid = pg_current_xact_id() AND w.op = 'c'
                    AND w.cmin::text::bigint > coalesce((SELECT max(s.cmin::text::bigint) FROM psp.captured s
                                                          WHERE s.xid = pg_current_xact_id() AND s.table_id = @SCHEMA_HISTORY_ID@), -1))
$$;

-- What is not the same here, in words.
CREATE FUNCTION psp.tables_that_differ(left_there jsonb, left_here jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', string_agg(
               CASE WHEN t.there ->> 0 = t.here ->> 0 THEN format('%s has other columns, another key or other guards here.', t.there ->> 0)
                    ELSE format('Number %s is %s there, and %s here.', t.number, coalesce(t.there ->> 0, 'no table'), coalesce(t.here ->> 0, 'no table')) END,
               ' ' ORDER BY t.number),
           CASE WHEN left_there -> 'last_number' <> left_here -> 'last_number'
                THEN format('The last number is %s there, and %s here.', left_there ->> 'last_number', left_here ->> 'last_number') END)
      FROM (SELECT k.key::integer AS number, k.value AS there, left_here -> 'tables' -> k.key AS here FROM jsonb_each(left_there -> 'tables') k) t
     WHERE t.there <> t.here
$$;

-- Where a statement has arrived, and run.
CREATE FUNCTION psp.check_tables_left(there jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    here CONSTANT jsonb := psp.tables_left(ARRAY(SELECT k::integer FROM jsonb_object_keys(there -> 'tables') k));
BEGIN
    IF there <> here THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'psp: a schema change leaves other tables here than where it was made',
            DETAIL = psp.tables_that_differ(there, here),
            HINT = 'The statement is undone. Something that is at this semi-primary only was in its way: psp schema check tells what differs. Give that another name, '
                   'here only: SET psp.schema_changes = local; ALTER … RENAME TO …. Then the change is tried again. If nothing differs, release this semi-primary, and let it join.';
    END IF;
END $$;
