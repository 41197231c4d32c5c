-- Clients begin, choose the variant of the views and see what became of their transactions. Run after everything else.
REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON SCHEMA psp FROM PUBLIC;
GRANT USAGE ON SCHEMA psp TO PUBLIC;
GRANT EXECUTE ON FUNCTION psp.begin(), psp.select_variant(text, boolean), psp.outcome(uuid), psp.can_commit(), psp.client_endpoint(),
    psp.advisory_xact_lock(bigint), psp.certify_read(regclass, text[]), psp.certify_read(regclass, anyarray), psp.certify_read_table(regclass),
    psp.certify_read_referrers(regclass, name, text[]), psp.certify_read_referrers(regclass, name, anyarray),
    psp.refuse_in_views_mode(text) TO PUBLIC;
GRANT SELECT ON psp.variant_schemas, psp.status, psp.conflicts TO PUBLIC;
