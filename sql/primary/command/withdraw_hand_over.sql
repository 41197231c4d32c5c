-- psp primary switchover: the old server's psp-primary begins again. Parameter: also if the standby may have been promoted.
DELETE FROM psp.hand_over
 WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) AND (promoting_at IS NULL OR %s)
RETURNING 1
