-- psp schema adopt: rows that were written while the snapshot was copied. Returns how many of them are new.
WITH put AS (
    INSERT INTO psp.data (table_id, key, global_t, sp_id, deleted, image)
    SELECT w.table_id, w.key, w.global_t, w.sp_id, w.deleted, w.image FROM written_rows w
        ON CONFLICT (table_id, key) DO UPDATE SET image = excluded.image
    RETURNING xmax = 0 AS is_new
)
SELECT count(*) FILTER (WHERE is_new) FROM put
