-- This session applies what comes from other servers (replica_role.sql).
INSERT INTO psp.apply_session (pid, server_start) VALUES (pg_backend_pid(), pg_postmaster_start_time())
ON CONFLICT (only_row) DO UPDATE SET pid = EXCLUDED.pid, server_start = EXCLUDED.server_start
