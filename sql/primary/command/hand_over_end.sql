-- psp primary switchover: where the WAL ends, as soon as nobody decides here any more; null before. The flushed part has ended_at.
-- (Where the WAL goes on may be a page's header further, which a standby reaches with the next record only.)
SELECT CASE WHEN ended_at IS NOT NULL THEN pg_current_wal_flush_lsn()::text END FROM psp.hand_over
 WHERE timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
