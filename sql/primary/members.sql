-- psp primary status: one row for each semi-primary that was not released, and what the log holds for them.
-- behind: transactions that are committed and not yet on its disk; null while it has nothing yet.
WITH newest AS (
    SELECT greatest(l.truncated_t, (SELECT max(global_t) FROM psp.replication_log)) AS global_t, l.truncated_t
      FROM psp.log_start l
)
SELECT s.sp_id, s.name, s.zone, s.registered_at,
       CASE WHEN s.acked_t < 0 OR s.join_t IS NOT NULL THEN 'joining' ELSE 'member' END AS state,
       nullif(s.acked_t, -1) AS acked_t,
       CASE WHEN s.acked_t >= 0 THEN greatest(n.global_t - s.acked_t, 0) END AS behind
  FROM psp.semi_primaries s CROSS JOIN newest n
 WHERE s.released_at IS NULL
 ORDER BY s.sp_id
