-- On how many synchronous standbys a decision must be before it is told: at least so many (psp primary copies), and so many as
-- PostgreSQL asks for now. How many are connected (as in look_at_copies.sql), and whether the role may see them.
-- synchronous_standby_names: FIRST 2 (a, b), ANY 2 (a, b), 2 (a, b), or names without a number: one of them.
SELECT c.copies,
       CASE WHEN btrim(s.names) = '' THEN 0
            ELSE coalesce(substring(s.names FROM '^\s*(?:[A-Za-z]+\s*)?(\d+)\s*\(')::integer, 1) END,
       (SELECT count(*) FROM pg_stat_get_wal_senders() w
         WHERE w.sync_state IN ('sync', 'quorum') AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_get_replication_slots() r WHERE r.active_pid = w.pid AND r.slot_type = 'logical')),
       pg_has_role('pg_read_all_stats', 'USAGE')
  FROM psp.cluster c, current_setting('synchronous_standby_names') AS s (names)
