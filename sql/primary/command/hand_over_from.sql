-- psp primary switchover: the server that hands over. Parameters: the two numbers of the daemon's advisory lock.
-- lost_slots: logical ones, which the standby does not get. was_asked: a hand-over that was neither done nor withdrawn; target: to this standby;
-- is_promoting: that may have been promoted. standstill: why nothing can be decided (cluster_status.sql); null: it can.
SELECT pg_is_in_recovery() AS is_standby,
       s.system_identifier::text, c.cluster_id::text, c.copies,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline,
       EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s::bigint AND objid = %s::bigint
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS is_served,
       ARRAY(SELECT slot_name::text FROM pg_replication_slots r
              WHERE slot_type = 'logical' AND NOT temporary AND NOT coalesce((to_jsonb(r) ->> 'failover')::boolean, false)
              ORDER BY slot_name) AS lost_slots,
       (SELECT (regexp_match(application_name, '^psp-primary watch: (.+), \d+ s$'))[1] FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'psp-primary watch:%%' LIMIT 1) AS standstill,
       h.target IS NOT NULL AS was_asked, h.target, h.promoting_at IS NOT NULL AS is_promoting
  FROM psp.cluster c CROSS JOIN pg_control_system() s
  LEFT JOIN psp.hand_over h
    ON h.timeline = CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END
