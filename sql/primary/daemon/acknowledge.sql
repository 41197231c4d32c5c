-- What SPs have on their disks: $1 int4[] sp_id, $2 int8[] acked_t. That ends a join whose copy it covers.
UPDATE psp.semi_primaries AS s
SET acked_t = greatest(s.acked_t, a.acked_t),
    join_t = CASE WHEN s.join_t > a.acked_t THEN s.join_t END
FROM unnest($1::int4[], $2::int8[]) AS a (sp_id, acked_t)
WHERE s.sp_id = a.sp_id AND (s.acked_t < a.acked_t OR s.join_t <= a.acked_t)
