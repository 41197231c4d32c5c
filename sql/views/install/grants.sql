-- Clients begin, choose their SELECT mode and see what became of their transactions. Run after everything else.
REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON SCHEMA psp FROM PUBLIC;
GRANT USAGE ON SCHEMA psp TO PUBLIC;
GRANT EXECUTE ON FUNCTION psp.begin(), psp.select_mode(text, boolean), psp.outcome(uuid), psp.client_endpoint() TO PUBLIC;
GRANT SELECT ON psp.mode_schemas, psp.status TO PUBLIC;
