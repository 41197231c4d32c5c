-- What the apply worker needs to know of each captured table: the element types of its column and key arrays, and its
-- statements. One array parameter for each column; search_path is pg_catalog, so every name comes out qualified.
WITH RECURSIVE base(oid, base) AS (  -- a domain's base type, any other type itself
    SELECT oid, oid FROM pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT d.oid, b.base FROM base b JOIN pg_type d ON d.typbasetype = b.oid AND d.typtype = 'd'
), tables AS (
    SELECT t.*, format('%I.%I', t.schema_name, t.table_name) AS qualified,
           to_regclass(format('%I.%I', t.schema_name, t.table_name)) AS relation
      FROM psp.tables t
), columns AS (
    SELECT t.table_id, c.ordinality AS n, a.attname AS name, a.attidentity = 'a' AS always,
           c.value ->> 'encoding' = 'text' AS is_text,
           CASE WHEN c.value ->> 'encoding' = 'text' THEN 'text'::regtype::oid ELSE b.base END AS element,
           format_type(a.atttypid, a.atttypmod) AS type_name,
           t.key_columns @> jsonb_build_array(jsonb_build_object('name', a.attname)) AS in_key
      FROM tables t, jsonb_array_elements(t.columns) WITH ORDINALITY c
      JOIN pg_attribute a ON a.attname = c.value ->> 'name' AND NOT a.attisdropped
      JOIN base b ON b.oid = a.atttypid
     WHERE a.attrelid = t.relation
), keys AS (
    SELECT t.table_id, k.ordinality AS n, a.attname AS name, b.base AS element
      FROM tables t, jsonb_array_elements(t.key_columns) WITH ORDINALITY k
      JOIN pg_attribute a ON a.attname = k.value ->> 'name' AND NOT a.attisdropped
      JOIN base b ON b.oid = a.atttypid
     WHERE a.attrelid = t.relation
), column_texts AS (
    SELECT table_id,
           string_agg(element::text, ',' ORDER BY n) AS oids,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(CASE WHEN is_text THEN format('u.c%s::%s', n, type_name) ELSE format('u.c%s', n) END, ', ' ORDER BY n) AS selected,
           string_agg(format('$%s::%s', n, format_type(e.typarray, -1)), ', ' ORDER BY n) AS arrays,
           string_agg('c' || n, ', ' ORDER BY n) AS aliases,
           string_agg(format('%I = EXCLUDED.%I', name, name), ', ' ORDER BY n) FILTER (WHERE NOT always) AS assignments,
           bool_or(always AND NOT in_key) AS has_fixed
      FROM columns JOIN pg_type e ON e.oid = element GROUP BY table_id
), key_texts AS (
    SELECT table_id,
           string_agg(element::text, ',' ORDER BY n) AS oids,
           string_agg(name, chr(1) ORDER BY n) AS plain_names,
           string_agg(format('%I', name), ', ' ORDER BY n) AS names,
           string_agg(format('$%s::%s', n, format_type(e.typarray, -1)), ', ' ORDER BY n) AS arrays,
           string_agg('k' || n, ', ' ORDER BY n) AS aliases,
           string_agg(format('t.%I = u.k%s', name, n), ' AND ' ORDER BY n) AS matches
      FROM keys JOIN pg_type e ON e.oid = element GROUP BY table_id
)
SELECT t.table_id, t.schema_name, t.table_name, c.oids AS column_oids, k.oids AS key_oids, k.plain_names AS key_names,
       -- not an arbiter of ON CONFLICT, or a column that an update cannot set
       c.has_fixed OR EXISTS (SELECT FROM pg_constraint p WHERE p.conrelid = t.relation AND p.contype = 'p' AND p.condeferrable)
           AS always_replace,
       format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM unnest(%s) AS u(%s)',
              t.qualified, c.names, c.selected, c.arrays, c.aliases) AS insert_sql,
       format(' ON CONFLICT (%s) DO ', k.names) ||
           coalesce('UPDATE SET ' || c.assignments, 'NOTHING') AS on_conflict_sql,
       format('DELETE FROM %s AS t USING unnest(%s) AS u(%s) WHERE %s', t.qualified, k.arrays, k.aliases, k.matches) AS delete_sql
  FROM tables t JOIN column_texts c USING (table_id) JOIN key_texts k USING (table_id)
