-- How far the WAL is on this server's disk, which covers all that this session has committed or could see, and how far on the disks of
-- $1 synchronous standbys; null: there are not so many, or the role may not see them (pg_read_all_stats).
-- A logical subscriber and pg_receivewal (which replays nothing) cannot take the server's place.
SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn, (
    SELECT w.flush_lsn - '0/0'::pg_lsn
      FROM pg_stat_get_wal_senders() w
     WHERE w.sync_state IN ('sync', 'quorum') AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_get_replication_slots() s WHERE s.active_pid = w.pid AND s.slot_type = 'logical')
     ORDER BY w.flush_lsn DESC OFFSET $1::integer - 1 LIMIT 1)
