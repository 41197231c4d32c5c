-- In the stored schema: gives the database that joins (role null), or a role in it, the search_path of the cluster. What is in braces is put in.
DO {quote} DECLARE
    wanted CONSTANT text := {path};
    role_name CONSTANT text := {role};
    place CONSTANT text := pg_catalog.format(
        CASE WHEN role_name IS NULL THEN 'ALTER DATABASE %2$I' ELSE 'ALTER ROLE %1$I IN DATABASE %2$I' END,
        role_name, pg_catalog.current_database());
BEGIN
    IF wanted = (
        SELECT pg_catalog.substr(c.setting, pg_catalog.length('search_path=') + 1)
          FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) c(setting)
         WHERE s.setrole = coalesce((SELECT oid FROM pg_catalog.pg_roles WHERE rolname = role_name), 0)
           AND s.setdatabase IN ((SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()), 0)
           AND pg_catalog.starts_with(c.setting, 'search_path=')
         ORDER BY s.setdatabase = 0 LIMIT 1)
    THEN
        RETURN;
    END IF;
    PERFORM pg_catalog.set_config('search_path', wanted, true);
    EXECUTE place || ' SET search_path FROM CURRENT';
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
        MESSAGE = pg_catalog.format('psp: %s has another search_path than in the cluster, which only an administrator can mend',
            coalesce('role ' || pg_catalog.quote_ident(role_name), 'the database')),
        HINT = pg_catalog.format('%s SET search_path = %s', place, coalesce(nullif(wanted, '""'), ''''''));
END {quote};
