-- Forgets decisions older than $1 seconds: a request repeated after that is certified again. But what was committed stays
-- while the log has it: its semi-primary may not have it yet, and may ask about it.
-- Looks at the next $3 of them, from $2 on. Returns how many they were, how many of them went, and where the last one stands.
WITH next AS MATERIALIZED (
    SELECT ctid AS place, global_t, decided_at
    FROM psp.tx_log
    WHERE decided_at >= $2::timestamptz AND decided_at < now() - make_interval(secs => $1)
    ORDER BY decided_at
    LIMIT $3
), purged AS (
    DELETE FROM psp.tx_log
    WHERE ctid = ANY (ARRAY(
        SELECT place FROM next
        WHERE global_t IS NULL OR global_t <= (SELECT truncated_t FROM psp.log_start WHERE only_row)))
    RETURNING true
)
SELECT count(*), (SELECT count(*) FROM purged), max(decided_at)::text FROM next
