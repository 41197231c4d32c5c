-- psp primary switchover: where the WAL ends, as soon as nobody decides here any more; null before.
SELECT CASE WHEN ended_at IS NOT NULL THEN pg_current_wal_insert_lsn()::text END FROM psp.hand_over
 WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
