-- The end of the daemon's role (daemon_role.sql), unless it has rights in other databases of this server: then it loses those
-- that it has here.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'psp_semi_primary') THEN
        RETURN;
    END IF;
    EXECUTE pg_catalog.format('REVOKE CONNECT ON DATABASE %I FROM psp_semi_primary', pg_catalog.current_database());
    IF pg_catalog.to_regnamespace('psp_mrv') IS NOT NULL THEN
        REVOKE ALL ON ALL TABLES IN SCHEMA psp_mrv FROM psp_semi_primary;
        REVOKE ALL ON SCHEMA psp_mrv FROM psp_semi_primary;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_shdepend d
                WHERE d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND d.refobjid = 'psp_semi_primary'::pg_catalog.regrole
                  AND d.classid <> 'pg_catalog.pg_parameter_acl'::pg_catalog.regclass) THEN
        RETURN;
    END IF;
    REVOKE SET ON PARAMETER session_replication_role, deadlock_timeout FROM psp_semi_primary;
    DROP ROLE psp_semi_primary;
END $$;
