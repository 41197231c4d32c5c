-- Nobody decides on this server any more (psp primary switchover).
UPDATE psp.hand_over SET ended_at = clock_timestamp()
 WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) AND ended_at IS NULL
