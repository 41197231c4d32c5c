-- The search_path of this database's sessions (role null; the parameter: what the server's files say), and of those of roles that own something here.
SELECT NULL::text AS role, coalesce(
    (SELECT substr(c.setting, length('search_path=') + 1)
       FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
      WHERE s.setrole = 0 AND starts_with(c.setting, 'search_path=')
        AND s.setdatabase IN ((SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()), 0)
      ORDER BY s.setdatabase = 0 LIMIT 1), %s) AS path
UNION ALL
SELECT role, path FROM (
    SELECT DISTINCT ON (r.oid) r.rolname::text AS role, substr(c.setting, length('search_path=') + 1) AS path
      FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
     CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
     WHERE starts_with(c.setting, 'search_path=') AND r.rolname !~ '^pg_'
       AND s.setdatabase IN ((SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()), 0)
       AND EXISTS (SELECT FROM pg_catalog.pg_shdepend d
                    WHERE d.refclassid = 'pg_catalog.pg_authid'::regclass AND d.refobjid = r.oid AND d.deptype = 'o'
                      AND d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
     ORDER BY r.oid, s.setdatabase = 0) roles
