-- Roles that may make schemas in this database: a schema change as one of them stops at a server where it may not. Of the database's owner the
-- schema public depends, too. Superusers need no right; each server has its own.
SELECT r.rolname::text AS role, r.oid = d.datdba AS is_owner
  FROM pg_catalog.pg_database d
  JOIN pg_catalog.pg_roles r
    ON r.oid = d.datdba
    OR EXISTS (SELECT FROM pg_catalog.aclexplode(d.datacl) a WHERE a.grantee = r.oid AND a.privilege_type = 'CREATE')
 WHERE d.datname = current_database() AND NOT r.rolsuper AND r.rolname NOT IN ('psp_functions', 'psp_semi_primary', 'psp_primary')
 ORDER BY 1
