-- psp primary verify, psp cluster verify: rows and checksum of each table that has not been dropped, by its number. Of the tables
-- %(tables)s only rows from number %(from_t)s on: older ones have images of an older definition (older_images.sql). Rows from before a
-- TRUNCATE do not count, nor requests that are forgotten (%(generation)s: the newest generation). Guards that schema changes have made are here, too, with no rows.
WITH known AS (
    SELECT table_id, coalesce(v.dropped, false) AS dropped FROM psp.tables FULL JOIN psp.table_versions v USING (table_id)
), held AS (
    SELECT d.table_id, count(*) AS rows, sum(hash_record_extended(ROW(d.image), 0)) AS checksum
      FROM psp.data d
      LEFT JOIN unnest(%(tables)s::integer[], %(from_t)s::bigint[]) o(table_id, from_t) USING (table_id)
      LEFT JOIN psp.emptied_tables e USING (table_id)
     WHERE NOT d.deleted AND d.global_t >= coalesce(greatest(o.from_t, e.emptied_t), 0)
       AND CASE WHEN d.table_id = @REQUESTS_ID@
                THEN psp.request_generation(d.image) >= %(generation)s - @REQUEST_GENERATIONS@ ELSE true END
     GROUP BY d.table_id
)
SELECT table_id, coalesce(h.rows, 0) AS rows, coalesce(h.checksum, 0) AS checksum
  FROM known k FULL JOIN held h USING (table_id)
 WHERE k.dropped IS NOT TRUE
