-- psp's triggers on the application's tables, as pg_dump names them.
SELECT n.nspname::text AS schema, format('%s %s', c.relname, t.tgname) AS name
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid
 WHERE f.pronamespace = 'psp'::pg_catalog.regnamespace AND NOT t.tgisinternal AND n.nspname <> 'psp'
