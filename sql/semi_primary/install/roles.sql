-- The roles that psp's functions belong to (function_owner.sql) and that psp-semi-primary logs in as (daemon_role.sql). A superuser
-- makes them before anything is given to them.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'psp_functions') THEN
        CREATE ROLE psp_functions NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'psp_semi_primary') THEN
        CREATE ROLE psp_semi_primary LOGIN;
    END IF;
END $$;
