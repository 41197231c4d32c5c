-- Whether this server hands over to a standby (psp primary switchover): no row: it does not.
SELECT ended_at IS NOT NULL FROM psp.hand_over WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
