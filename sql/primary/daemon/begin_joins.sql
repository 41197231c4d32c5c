-- SPs begin to copy the table: $1 int4[] sp_id, $2 int8[] as of when.
UPDATE psp.semi_primaries AS s
SET join_t = j.join_t
FROM unnest($1::int4[], $2::int8[]) AS j (sp_id, join_t)
WHERE s.sp_id = j.sp_id
