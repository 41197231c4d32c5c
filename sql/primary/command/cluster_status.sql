-- psp primary status: the cluster as a whole, and what the log keeps for semi-primaries that have not acknowledged it.
-- Parameters: the two numbers of the daemon's advisory lock.
SELECT c.epoch, c.state, c.mode, c.catalog_version,
       greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log)) AS newest_t,
       l.truncated_t AS log_begins_t, pg_total_relation_size('psp.replication_log') AS log_bytes,
       EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s::bigint AND objid = %s::bigint
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS is_served,
       -- What its sessions call themselves (primary/certify/executor.cc); null: none is connected.
       (SELECT CASE WHEN bool_and(application_name LIKE '%%, module') THEN 'module' ELSE 'sql' END FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'psp-primary executor%%' HAVING count(*) > 0) AS certified_by,
       -- Synchronous standbys: at least so many (psp primary copies), what PostgreSQL asks for, how many there are; and for how long the
       -- oldest batch has waited for them, null: none waits.
       c.copies, current_setting('synchronous_standby_names') AS synchronous_standby_names,
       (SELECT count(*) FROM psp.synchronous_standbys()) AS synchronous_standbys,
       (SELECT extract(epoch FROM max(clock_timestamp() - query_start))::float FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'psp-primary executor%%' AND wait_event = 'SyncRep')
       AS waits_for_standbys_s,
       -- Why nothing can be decided, and for how long so far: what the daemon's watch calls itself (primary/server_watch.cc); null: it can.
       w.parts[1] AS standstill, w.parts[2]::integer AS standstill_s,
       -- psp primary switchover: psp-primary decides nothing more on this server, or ends soon.
       EXISTS (SELECT FROM psp.hand_over h
                WHERE h.timeline = CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END) AS hands_over,
       -- Of the disk with the data, as psp-primary sees it; null: it runs at another machine, or has not told lately.
       d.free_bytes AS disk_free_bytes, d.size_bytes AS disk_bytes
  FROM psp.cluster c CROSS JOIN psp.log_start l
  LEFT JOIN psp.disk_space d ON d.updated_at > clock_timestamp() - interval '1 minute'
  LEFT JOIN (SELECT regexp_match(application_name, '^psp-primary watch: (.+), (\d+) s$') AS parts FROM pg_stat_activity
              WHERE datname = current_database() AND application_name LIKE 'psp-primary watch:%%'
              LIMIT 1) AS w ON true
