-- The application's relations: no system schema's, not psp's, no extension's.
SELECT c.oid AS relation, n.nspname AS schema, c.relname AS name, c.relkind AS kind, c.relpersistence AS persistence
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'psp')
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e
                    WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
