-- The schema changes that a semi-primary in native mode has, oldest first.
SELECT change, statement_n, executed_at, sp_name, role, statement FROM psp.schema_history ORDER BY change, statement_n
