-- psp primary promote: what a standby of the primary's server, or the server after that, has.
-- heard_s: since the last message of the server that it follows; null: it follows none now.
-- is_replayed: all WAL that it has received. A setting that the role may not see is null.
SELECT s.is_standby,
       CASE WHEN s.is_standby THEN pg_get_wal_replay_pause_state() <> 'not paused' ELSE false END AS is_paused,
       CASE WHEN s.is_standby THEN coalesce(pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn(), true) ELSE true END AS is_replayed,
       (SELECT extract(epoch FROM clock_timestamp() - r.last_msg_receipt_time)::float8
          FROM pg_stat_wal_receiver r WHERE r.status = 'streaming') AS heard_s,
       (SELECT nullif(setting, '') FROM pg_settings WHERE name = 'primary_conninfo') AS old_dsn,
       current_setting('wal_log_hints')::boolean OR current_setting('data_checksums')::boolean AS can_be_rewound_to,
       current_setting('synchronous_standby_names') AS synchronous_standby_names,
       c.cluster_id::text, c.copies, l.newest_t,
       ARRAY(SELECT history::text FROM psp.epochs) AS histories,
       ARRAY(SELECT name FROM psp.semi_primaries WHERE released_at IS NULL AND acked_t >= 0 ORDER BY sp_id) AS members
  FROM psp.cluster c,
       (SELECT pg_is_in_recovery()) s (is_standby),
       (SELECT greatest(truncated_t, (SELECT max(global_t) FROM psp.replication_log)) FROM psp.log_start) l (newest_t)
