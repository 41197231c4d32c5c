-- What the apply worker needs to know of each captured table: the types of the rows and keys of which its functions take arrays
-- (apply_functions.sql), and the types of their fields.
WITH parts AS (
    SELECT c.relname, c.reltype AS type, string_agg(a.atttypid::text, ',' ORDER BY a.attnum) AS fields
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relnamespace = 'psp'::regnamespace AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY c.relname, c.reltype
)
SELECT t.table_id, t.schema_name, t.table_name, t.persistent IS NOT NULL AS versioned,
       r.type AS row_type, r.fields AS row_fields, k.type AS key_type, k.fields AS key_fields,
       (SELECT string_agg(n.value ->> 'name', chr(1) ORDER BY n.ordinality)
          FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY n) AS key_names,
       (SELECT string_agg(n.value ->> 'name', chr(1) ORDER BY n.ordinality)
          FROM jsonb_array_elements(t.columns) WITH ORDINALITY n) AS column_names,
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
