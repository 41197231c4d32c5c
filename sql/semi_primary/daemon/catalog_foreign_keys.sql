-- The foreign keys of captured tables, by the number to which they refer (writeset/FORMAT.md, "Key uses").
SELECT (f.value ->> 'refers_to')::integer AS refers_to, t.schema_name, t.table_name, f.value ->> 'constraint' AS constraint_name
  FROM psp.tables t, jsonb_array_elements(t.foreign_keys) f
 ORDER BY t.schema_name, t.table_name, constraint_name
