-- The end of psp's roles (daemon_role.sql, function_owner.sql), unless they have rights in other databases of this server: then
-- they lose those that they have here.
DO $$
DECLARE
    psp_role text;
BEGIN
    FOR psp_role IN
        SELECT rolname FROM pg_catalog.pg_roles WHERE rolname IN ('psp_semi_primary', 'psp_functions')
    LOOP
        IF psp_role = 'psp_semi_primary' THEN
            EXECUTE pg_catalog.format('REVOKE CONNECT ON DATABASE %I FROM psp_semi_primary', pg_catalog.current_database());
            IF pg_catalog.to_regnamespace('psp_mrv') IS NOT NULL THEN
                REVOKE ALL ON ALL TABLES IN SCHEMA psp_mrv FROM psp_semi_primary;
                REVOKE ALL ON SCHEMA psp_mrv FROM psp_semi_primary;
            END IF;
        ELSE
            DROP OWNED BY psp_functions;  -- rights only: it owns nothing any more
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_catalog.pg_shdepend d
             WHERE d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND d.refobjid = psp_role::pg_catalog.regrole
               AND d.classid <> 'pg_catalog.pg_parameter_acl'::pg_catalog.regclass);
        BEGIN
            IF psp_role = 'psp_semi_primary' THEN
                REVOKE SET ON PARAMETER session_replication_role, deadlock_timeout FROM psp_semi_primary;
            END IF;
            EXECUTE pg_catalog.format('DROP ROLE %I', psp_role);
        EXCEPTION WHEN insufficient_privilege OR dependent_objects_still_exist THEN
            -- An administrator has made it and given it rights, and takes both back.
            RAISE NOTICE 'role % stays', psp_role;
        END;
    END LOOP;
END $$;
