-- psp primary status: one row for each semi-primary that was not released. Parameter: newest_t of cluster_status.sql.
-- behind: how far it is from there with what is on its disk; null while it has nothing yet.
SELECT s.sp_id, s.name, s.zone, s.registered_at,
       CASE WHEN s.acked_t < 0 OR s.join_t IS NOT NULL THEN 'joining' ELSE 'member' END AS state,
       nullif(s.acked_t, -1) AS acked_t,
       CASE WHEN s.acked_t >= 0 THEN greatest(%s::bigint - s.acked_t, 0) END AS behind
  FROM psp.semi_primaries s
 WHERE s.released_at IS NULL
 ORDER BY s.sp_id
