-- psp primary switchover: the standby that takes over. awaits_restart: settings that were changed and count after a restart only.
-- timeline: the newest that it has seen. standbys: those that can be synchronous (psp.synchronous_standbys, once they are named).
SELECT pg_is_in_recovery() AS is_standby,
       s.system_identifier::text, c.cluster_id::text,
       EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AS streams,
       CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() <> 'not paused' ELSE false END AS is_paused,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       (SELECT count(*) FROM pg_stat_replication w
         WHERE w.state = 'streaming' AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.active_pid = w.pid AND r.slot_type = 'logical'))::integer AS standbys,
       greatest((SELECT timeline_id FROM pg_control_checkpoint()), (SELECT min_recovery_end_timeline FROM pg_control_recovery()),
                (SELECT received_tli FROM pg_stat_wal_receiver)) AS timeline,
       ARRAY(SELECT name FROM pg_settings WHERE pending_restart ORDER BY name) AS awaits_restart
  FROM psp.cluster c CROSS JOIN pg_control_system() s
