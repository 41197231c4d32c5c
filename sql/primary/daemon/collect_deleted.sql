-- Collects deleted keys that a transaction <= $1 has written last. Looks at the next $4 of them after the key ($2, $3).
-- Returns how many they were, and the last one.
-- No snapshot may lack what a missing key stands for, so collected_t changes in the same transaction; a batch that had its
-- snapshot before and writes to a collected key refuses itself (psp.refuse_batch). SKIP LOCKED: batches never wait for it
-- longer than it takes, and it never waits for them.
WITH next AS MATERIALIZED (
    SELECT ctid AS place, table_id, key, global_t
    FROM psp.data
    WHERE deleted AND (table_id, key) > ($2::int4, $3::bytea)
    ORDER BY table_id, key
    LIMIT $4
), free AS MATERIALIZED (
    SELECT ctid AS place
    FROM psp.data
    WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE global_t <= $1)) AND deleted AND global_t <= $1
    FOR UPDATE SKIP LOCKED
), collected AS (
    DELETE FROM psp.data WHERE ctid = ANY (ARRAY(SELECT place FROM free)) RETURNING true
), noted AS (
    UPDATE psp.log_start SET collected_t = $1 WHERE collected_t < $1 AND EXISTS (SELECT FROM collected)
)
SELECT n.size, l.table_id, l.key
FROM (SELECT count(*) AS size FROM next) AS n
LEFT JOIN (SELECT table_id, key FROM next ORDER BY table_id DESC, key DESC LIMIT 1) AS l ON true
