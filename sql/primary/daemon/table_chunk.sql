-- The next rows of the copy for a joining SP after the key ($1, $2): those that are as they were at snapshot $3, as
-- many as have $4 bytes before the last one. Guards and deleted rows have no image. A row that was changed since is
-- left out here and comes by the log; so the copy is a part of the state at the snapshot, whenever it is read.
-- Rows of a table that is dropped or emptied by now are left out, too, also if they were there at the snapshot: the log drops them.
-- Each row with the catalog version under which it was written: the versions have no gap, and the first one has no row.
-- A statement of psp.schema_history comes alone: it runs in a transaction of its own, as some must (ALTER TYPE … ADD VALUE).
SELECT table_id, key, image,
       1 + width_bucket(global_t, ARRAY(SELECT v.global_t FROM psp.catalog_versions AS v ORDER BY v.global_t)) AS catalog_version
FROM (
    SELECT *, sum(octet_length(image)) OVER by_key - octet_length(image) AS bytes_before,
           row_number() OVER by_key AS n, first_value(table_id) OVER by_key AS first_table
    FROM (
        SELECT table_id, key, image, global_t
        FROM psp.data
        WHERE (table_id, key) > ($1::int4, $2::bytea) AND image IS NOT NULL AND NOT deleted AND global_t <= $3
          AND table_id NOT IN (SELECT t.table_id FROM psp.table_versions AS t WHERE t.dropped)
          -- (NOT IN: one lookup in a hash table for each row. Few tables are in there.)
          AND (table_id NOT IN (SELECT e.table_id FROM psp.emptied_tables AS e)
               OR global_t >= (SELECT e.emptied_t FROM psp.emptied_tables AS e WHERE e.table_id = data.table_id))
        ORDER BY table_id, key
        LIMIT 8192
    ) AS next
    WINDOW by_key AS (ORDER BY table_id, key ROWS UNBOUNDED PRECEDING)
) AS counted
WHERE bytes_before < $4 AND (n = 1 OR first_table <> @SCHEMA_HISTORY_ID@)
ORDER BY table_id, key
