-- Application roles may ask, and nothing more: no setting, function or table of theirs reaches the capture.
REVOKE ALL ON ALL TABLES IN SCHEMA psp FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA psp FROM PUBLIC;
GRANT USAGE ON SCHEMA psp TO PUBLIC;
GRANT EXECUTE ON FUNCTION psp.outcome(uuid), psp.snapshot() TO PUBLIC;
GRANT SELECT ON psp.status TO PUBLIC;
