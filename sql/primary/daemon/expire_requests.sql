-- Requests that are forgotten (sql/native/install/requests.sql) count as deleted, and are collected like deleted rows. Looks at the next $3 rows of
-- psp.requests after the key $2; the newest generation is $1 (newest_generation.sql). Returns how many rows they were, and the last one's key.
-- SKIP LOCKED: as in collect_deleted.sql. What is skipped waits for the next generation.
WITH next AS MATERIALIZED (
    SELECT ctid AS place, key, psp.request_generation(image) AS generation
    FROM psp.data
    WHERE table_id = @REQUESTS_ID@ AND key > $2::bytea AND NOT deleted
    ORDER BY key
    LIMIT $3
), free AS MATERIALIZED (
    SELECT ctid AS place
    FROM psp.data
    WHERE ctid = ANY (ARRAY(SELECT place FROM next WHERE generation < $1::int4 - @REQUEST_GENERATIONS@))
    FOR UPDATE SKIP LOCKED
), expired AS (
    UPDATE psp.data SET deleted = true, image = NULL WHERE ctid = ANY (ARRAY(SELECT place FROM free))
)
SELECT n.size, l.key
FROM (SELECT count(*) AS size FROM next) AS n
LEFT JOIN (SELECT key FROM next ORDER BY key DESC LIMIT 1) AS l ON true
