-- What SPs have on their disks: $1 int4[] sp_id, $2 int8[] acked_t.
UPDATE psp.semi_primaries AS s
SET acked_t = a.acked_t
FROM unnest($1::int4[], $2::int8[]) AS a (sp_id, acked_t)
WHERE s.sp_id = a.sp_id AND s.acked_t < a.acked_t
