-- Where the server has no module psp_certify (any more).
DROP FUNCTION IF EXISTS psp.certify_module_version;
DROP FUNCTION IF EXISTS psp.certify_batch;
