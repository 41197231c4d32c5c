-- psp primary switchover: from now on this server's psp-primary ends, and decides nothing more here. Parameter: how long COMMITs may wait.
INSERT INTO psp.hand_over (timeline, limit_ms) VALUES (left(pg_walfile_name(pg_current_wal_lsn()), 8), %s)
ON CONFLICT (only_row) DO UPDATE SET timeline = excluded.timeline, limit_ms = excluded.limit_ms, ended_at = NULL
