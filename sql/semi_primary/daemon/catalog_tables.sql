-- What the apply worker needs to know of each captured table: the types of its functions' arguments (apply_functions.sql),
-- which are records of arrays, and the elements' types.
WITH parts AS (
    SELECT c.relname, string_agg(a.atttypid::text, ',' ORDER BY a.attnum) AS arrays,
           string_agg(e.typelem::text, ',' ORDER BY a.attnum) AS elements
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type e ON e.oid = a.atttypid
     WHERE c.relnamespace = 'psp'::regnamespace AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY c.relname
)
SELECT t.table_id, t.schema_name, t.table_name, t.persistent IS NOT NULL AS versioned,
       r.arrays AS column_array_oids, r.elements AS column_oids, k.arrays AS key_array_oids, k.elements AS key_oids,
       (SELECT string_agg(n.value ->> 'name', chr(1) ORDER BY n.ordinality)
          FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY n) AS key_names,
       -- not an arbiter of ON CONFLICT, or a column that an update cannot set
       EXISTS (SELECT FROM pg_constraint p
                WHERE p.conrelid = c.oid AND p.contype = 'p' AND p.condeferrable)
       OR EXISTS (SELECT FROM pg_attribute a
                   WHERE a.attrelid = c.oid AND a.attidentity = 'a' AND NOT a.attisdropped
                     AND NOT t.key_columns @> jsonb_build_array(jsonb_build_object('name', a.attname))) AS always_replace,
       to_regproc('psp.apply_make_way_' || t.table_id) IS NOT NULL AS makes_way
  FROM psp.tables t
  JOIN parts r ON r.relname = 'apply_rows_' || t.table_id
  JOIN parts k ON k.relname = 'apply_keys_' || t.table_id
  JOIN pg_namespace n ON n.nspname = t.schema_name
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = coalesce(t.persistent, t.table_name)
