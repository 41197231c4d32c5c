-- Materialized views without rows, in the order in which a restored schema made them: those that others read come first.
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND NOT c.relispopulated ORDER BY c.oid
