-- Removes rows of one emptied table that were written before it was emptied. Looks at the next $1 of its rows; a table whose last row
-- was among them is done. Returns whether there may be more to do at once.
-- Nobody needs these rows: who writes to the table has the change that emptied it, and that one had them all. SKIP LOCKED: a batch
-- that writes over such a row has it (as in collect_deleted.sql); then the same rows are looked at again at the next call.
WITH emptied AS MATERIALIZED (
    SELECT table_id, emptied_t, swept_upto FROM psp.emptied_tables ORDER BY table_id LIMIT 1
), next AS MATERIALIZED (
    SELECT d.place, d.key, d.global_t < e.emptied_t AS is_older
    FROM emptied AS e
    CROSS JOIN LATERAL (
        SELECT o.ctid AS place, o.key, o.global_t
        FROM psp.data AS o
        WHERE o.table_id = e.table_id AND o.key > e.swept_upto
        ORDER BY o.key
        LIMIT $1
    ) AS d
), free AS MATERIALIZED (
    SELECT ctid AS place
    FROM psp.data
    WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE is_older))
      AND table_id = (SELECT table_id FROM emptied) AND global_t < (SELECT emptied_t FROM emptied)
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM psp.data WHERE ctid = ANY (ARRAY(SELECT place FROM free))
), seen AS MATERIALIZED (
    SELECT count(*) = $1 AS is_piece, count(*) FILTER (WHERE is_older) = (SELECT count(*) FROM free) AS is_swept FROM next
), moved AS (
    UPDATE psp.emptied_tables
    SET swept_upto = (SELECT key FROM next ORDER BY key DESC LIMIT 1)
    WHERE (table_id, emptied_t) = (SELECT table_id, emptied_t FROM emptied) AND (SELECT is_piece AND is_swept FROM seen)
), done AS (
    DELETE FROM psp.emptied_tables
    WHERE (table_id, emptied_t) = (SELECT table_id, emptied_t FROM emptied) AND (SELECT NOT is_piece AND is_swept FROM seen)
)
SELECT is_swept AND EXISTS (SELECT FROM emptied) FROM seen
