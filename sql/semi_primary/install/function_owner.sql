-- The role that psp's functions in the application's sessions belong to, and run as: capture, the commit hook and what clients
-- ask. It cannot log in, is no superuser and owns nothing but these functions, psp.schema_history, psp.requests and psp.notifications. Its rights are given in grants.sql.j2, in views
-- mode in function_rights.sql. Run by a superuser, when all functions are there and before schema changes are refused.
-- (psp.create_capture_function gives it the capture functions of each table.)
-- Other functions that are SECURITY DEFINER stay the superuser's (docs/security.md lists them), or belong to the owners of tables.
SELECT psp.give(pg_catalog.array_agg('FUNCTION ' || f.oid::pg_catalog.regprocedure), 'psp_functions')
  FROM pg_catalog.pg_proc f
 WHERE f.pronamespace = 'psp'::pg_catalog.regnamespace AND f.prosecdef
   AND f.proname IN ('advisory_xact_lock', 'begin', 'check_request_is_done', 'client_endpoint', 'commit_hook', 'complete_request', 'count_age', 'first_write', 'keep_statement', 'key_to_add', 'notify', 'on_joined', 'outcome', 'remove_old_requests',
                     'refuse_replica', 'runs_as_it_is', 'snapshot', 'statements_of_transaction', 'tell_notification', 'token', 'transaction_id', 'wait_for', 'write_read', 'write_request', 'write_statement');
