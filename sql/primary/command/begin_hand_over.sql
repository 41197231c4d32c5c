-- psp primary switchover: from now on this server's psp-primary ends, and decides nothing more here. Parameters: how long COMMITs may wait, and
-- the standby's address. No row: an earlier one may have promoted another standby. is_promoting: an earlier one may have promoted this one.
INSERT INTO psp.hand_over AS h (timeline, limit_ms, target) VALUES (left(pg_walfile_name(pg_current_wal_lsn()), 8), %s, %s)
ON CONFLICT (only_row) DO UPDATE
   SET timeline = excluded.timeline, limit_ms = excluded.limit_ms, ended_at = NULL, target = excluded.target,
       promoting_at = CASE WHEN h.timeline = excluded.timeline THEN h.promoting_at END
 WHERE h.timeline <> excluded.timeline OR h.promoting_at IS NULL OR h.target = excluded.target
RETURNING promoting_at IS NOT NULL AS is_promoting
