-- Who is connected: $1 int4[] sp_id, $2 int4[] 0 or 1, $3 int8[] for how many ms it has not been heard; -1: this daemon has never heard it.
UPDATE psp.semi_primaries AS s
SET is_connected = p.connected = 1,
    seen_at = CASE WHEN p.ago_ms >= 0 THEN clock_timestamp() - p.ago_ms * interval '1 ms' ELSE s.seen_at END
FROM unnest($1::int4[], $2::int4[], $3::int8[]) AS p (sp_id, connected, ago_ms)
WHERE s.sp_id = p.sp_id AND (p.ago_ms >= 0 OR s.is_connected)
