-- psp primary remove, psp schema join --replace: one semi-primary that was not released. Parameters: the two numbers of the daemon's advisory lock, its name.
-- is_connected: as psp-primary wrote it last; true also if the daemon has ended since (is_served). behind: what it has not on its disk;
-- null while it has nothing yet.
SELECT s.sp_id, s.zone, s.is_connected, s.seen_at,
       EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s::bigint AND objid = %s::bigint
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS is_served,
       CASE WHEN s.acked_t >= 0 AND s.join_t IS NULL
            THEN greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log)) - s.acked_t END AS behind
  FROM psp.semi_primaries s CROSS JOIN psp.log_start l
 WHERE s.name = %s AND s.released_at IS NULL
