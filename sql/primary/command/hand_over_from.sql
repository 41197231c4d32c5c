-- psp primary switchover: the server that hands over. Parameters: the two numbers of the daemon's advisory lock.
-- lost_slots: logical ones, which the standby does not get. was_asked: a hand-over that was neither done nor withdrawn.
SELECT pg_is_in_recovery() AS is_standby,
       s.system_identifier::text, c.cluster_id::text, c.copies,
       CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline,
       EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s::bigint AND objid = %s::bigint
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS is_served,
       ARRAY(SELECT slot_name::text FROM pg_replication_slots r
              WHERE slot_type = 'logical' AND NOT temporary AND NOT coalesce((to_jsonb(r) ->> 'failover')::boolean, false)
              ORDER BY slot_name) AS lost_slots,
       EXISTS (SELECT FROM psp.hand_over h WHERE NOT pg_is_in_recovery() AND h.timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8))
       AS was_asked
  FROM psp.cluster c CROSS JOIN pg_control_system() s
