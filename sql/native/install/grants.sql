-- Application roles may ask, and nothing more: no setting, function or table of theirs reaches the capture.
-- Run after everything else is there. dblink's functions are in the schema, too, unless it was installed before psp.
REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA psp FROM PUBLIC;

-- What ALTER DEFAULT PRIVILEGES has given to others.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT r.rolname
          FROM (SELECT relacl, relowner FROM pg_catalog.pg_class WHERE relnamespace = 'psp'::regnamespace
                UNION ALL SELECT proacl, proowner FROM pg_catalog.pg_proc WHERE pronamespace = 'psp'::regnamespace
                UNION ALL SELECT nspacl, nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'psp') o(acl, owner)
         CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) a
          JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
         WHERE a.grantee <> o.owner
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM %I', grantee);
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL ROUTINES IN SCHEMA psp FROM %I', grantee);
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA psp FROM %I', grantee);
    END LOOP;
END $$;

REVOKE ALL ON SCHEMA psp FROM PUBLIC;
GRANT USAGE ON SCHEMA psp TO PUBLIC;
GRANT EXECUTE ON FUNCTION psp.outcome(uuid), psp.transaction_id(), psp.snapshot() TO PUBLIC;
GRANT SELECT ON psp.status TO PUBLIC;
