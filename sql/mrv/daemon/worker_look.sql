-- The time, microseconds since 1970, whether there is anything to do in this database, and who owns psp_mrv if this session is a superuser's and the
-- owner is none: his functions would run with a superuser's rights.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
       to_regclass('psp_mrv.outcomes') IS NOT NULL AS is_installed,
       (SELECT o.rolname FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_roles me ON me.rolname = session_user
         WHERE n.nspname = 'psp_mrv' AND me.rolsuper AND NOT o.rolsuper) AS other_owner
