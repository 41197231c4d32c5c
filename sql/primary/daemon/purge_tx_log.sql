-- Forgets decisions older than $1 milliseconds: a request repeated after that is certified again. But what was committed stays
-- while the log has it: its semi-primary may not have it yet, and may ask about it. What is forgotten of the committed ones is
-- written down in the same transaction, so that a question about one is never answered with aborted.
-- Looks at the next $3 of them, from $2 on. Returns how many they were, how many of them went, and where the last one stands.
WITH next AS MATERIALIZED (
    SELECT ctid AS place, global_t, decided_ms
    FROM psp.tx_log
    WHERE decided_ms >= $2::bigint AND decided_ms < (SELECT clock_ms FROM psp.log_start WHERE only_row) - $1::bigint
    ORDER BY decided_ms
    LIMIT $3
), purged AS (
    DELETE FROM psp.tx_log
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM next
        WHERE global_t IS NULL OR global_t <= (SELECT truncated_t FROM psp.log_start WHERE only_row)))
    RETURNING tx_id, sp_id, global_t
), forgotten AS (
    UPDATE psp.semi_primaries AS s
    SET forgotten_xid = f.xid
    FROM (SELECT sp_id, max(psp.xid_of(tx_id)) FROM purged
          WHERE global_t IS NOT NULL AND psp.sp_of(tx_id) = sp_id
          GROUP BY sp_id) AS f (sp_id, xid)
    WHERE s.sp_id = f.sp_id AND s.forgotten_xid < f.xid
)
SELECT count(*), (SELECT count(*) FROM purged), max(decided_ms) FROM next
