-- The version of the server module psp_certify, and whether the daemon may use it. An error: it is not there.
SELECT psp.certify_module_version(), has_function_privilege('psp.certify_batch'::regproc, 'EXECUTE')
