-- psp schema release: how a semi-primary stands to its cluster. Parameters: sp_id, watermark and seen numbers above it.
-- missing: how many of the transactions that are still in the log it does not have. is_connected: psp-primary runs, and has it connected.
SELECT c.cluster_id::text AS cluster_id,
       greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log)) AS newest_t,
       (SELECT count(*) FROM psp.replication_log
         WHERE global_t > %(watermark)s AND global_t <> ALL (%(seen)s)) AS missing,
       l.truncated_t > %(watermark)s AS is_before_the_log,
       EXISTS (SELECT FROM psp.semi_primaries WHERE sp_id = %(sp_id)s AND released_at IS NULL) AS is_member,
       EXISTS (SELECT FROM psp.semi_primaries WHERE sp_id = %(sp_id)s AND is_connected)
       AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %(lock_class)s::bigint AND objid = %(lock)s::bigint
                      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS is_connected,
       ARRAY(SELECT name FROM psp.semi_primaries
              WHERE released_at IS NULL AND sp_id <> %(sp_id)s ORDER BY name) AS others
  FROM psp.cluster c, psp.log_start l
