-- The guards' own numbers, and which index each stands for.
SELECT t.table_id, (g ->> 'guard_id')::integer AS guard_id, g ->> 'index' AS index_name
  FROM psp.tables t, jsonb_array_elements(t.guards) g
