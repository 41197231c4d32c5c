-- Whether this session's locks keep the apply worker waiting.
SELECT CASE WHEN pg_backend_pid() = ANY (pg_blocking_pids((SELECT s.pid FROM psp.apply_session s))) THEN 'yes' END
