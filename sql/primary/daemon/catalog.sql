-- Every number that may stand in a write-set: tables and guards.
SELECT table_id FROM psp.tables
UNION ALL
SELECT (guard ->> 'guard_id')::int4 FROM psp.tables, jsonb_array_elements(guards) AS guard
