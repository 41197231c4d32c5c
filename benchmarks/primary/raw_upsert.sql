-- One batch: $1 int4[] table_id   $2 bytea[] key   $3 int8[] global_t   $4 int4[] sp_id   $5 bytea[] image
INSERT INTO public.raw (table_id, key, global_t, sp_id, deleted, image)
SELECT table_id, key, global_t, sp_id, false, image
FROM unnest($1::int4[], $2::bytea[], $3::int8[], $4::int4[], $5::bytea[]) AS r (table_id, key, global_t, sp_id, image)
ON CONFLICT (table_id, key) DO UPDATE
SET global_t = excluded.global_t, sp_id = excluded.sp_id, deleted = excluded.deleted, image = excluded.image
