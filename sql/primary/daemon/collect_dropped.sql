-- Removes rows of dropped tables, $1 of them at most. Returns how many they were. Nobody needs them from the drop on: no
-- transaction that writes to such a table commits any more, and no copy has them, not even one that was begun before
-- (table_chunk.sql).
WITH next AS MATERIALIZED (
    SELECT d.place
    FROM psp.table_versions AS t
    CROSS JOIN LATERAL (SELECT o.ctid AS place FROM psp.data AS o WHERE o.table_id = t.table_id LIMIT $1) AS d
    WHERE t.dropped
    LIMIT $1
), removed AS (
    DELETE FROM psp.data WHERE ctid = ANY (ARRAY(SELECT place FROM next)) RETURNING true
)
SELECT count(*) FROM removed
