-- psp primary switchover: the standby may be promoted from now on. No row: the hand-over was withdrawn, or nobody has ended it.
UPDATE psp.hand_over SET promoting_at = coalesce(promoting_at, clock_timestamp())
 WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) AND ended_at IS NOT NULL
RETURNING 1
