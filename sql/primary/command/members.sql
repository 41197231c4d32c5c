-- psp primary status: one row for each semi-primary that was not released. Parameters: of cluster_status.sql newest_t, is_served, log_bytes,
-- log_begins_t.
-- behind: how far it is from there with what is on its disk; null while it has nothing yet.
-- is_connected: null while no daemon runs. seen_at: when it was heard last.
-- keeps_bytes: of the log, roughly, what cannot be removed before this one has it; null while it needs nothing.
SELECT s.sp_id, s.name, s.zone, s.registered_at,
       CASE WHEN s.acked_t < 0 OR s.join_t IS NOT NULL THEN 'joining' ELSE 'member' END AS state,
       nullif(s.acked_t, -1) AS acked_t,
       CASE WHEN s.acked_t >= 0 THEN greatest(p.newest_t - s.acked_t, 0) END AS behind,
       CASE WHEN p.is_served THEN s.is_connected END AS is_connected, s.seen_at,
       CASE WHEN p.newest_t > k.from_t
            THEN (p.log_bytes * least((p.newest_t - k.from_t)::numeric / greatest(p.newest_t - p.log_begins_t, 1), 1))::bigint END AS keeps_bytes
  FROM psp.semi_primaries s
 CROSS JOIN LATERAL (SELECT coalesce(s.join_t, nullif(s.acked_t, -1)) AS from_t) k
 CROSS JOIN (SELECT %s::bigint AS newest_t, %s::boolean AS is_served, %s::bigint AS log_bytes, %s::bigint AS log_begins_t) p
 WHERE s.released_at IS NULL
 ORDER BY s.sp_id
