-- Clients begin, choose their SELECT mode and see what became of their transactions. Run after everything else.
REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON SCHEMA psp FROM PUBLIC;
GRANT USAGE ON SCHEMA psp TO PUBLIC;
GRANT EXECUTE ON FUNCTION psp.begin(), psp.select_mode(text, boolean), psp.no_transaction(), psp.next_identity(regclass),
    psp.outcome(uuid), psp.client_endpoint() TO PUBLIC;
GRANT SELECT ON psp.mode_schemas, psp.status TO PUBLIC;
-- Called inside rules, as the one who writes; each sees the caller's own transaction only.
DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_catalog.pg_proc
              WHERE pronamespace = 'psp'::regnamespace AND proname ~ '^(claim|rekey)_[0-9]+$' LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f);
    END LOOP;
END $$;
