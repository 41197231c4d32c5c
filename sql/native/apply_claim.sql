-- This session applies what comes from other servers (replica_role.sql).
INSERT INTO psp.apply_session (pid, backend_start)
SELECT pid, backend_start FROM pg_stat_get_activity(pg_backend_pid())
ON CONFLICT (only_row) DO UPDATE SET pid = EXCLUDED.pid, backend_start = EXCLUDED.backend_start
