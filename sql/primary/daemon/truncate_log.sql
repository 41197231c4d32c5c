-- Removes from the log what every registered SP has acknowledged, and nothing above what joining SPs copy, some
-- thousand at a time. Without any SP nothing is removed. Returns where the log begins, and whether there is more to remove.
WITH acknowledged AS (
    SELECT min(coalesce(join_t, acked_t)) AS upto_t
    FROM psp.semi_primaries
    WHERE released_at IS NULL AND (acked_t >= 0 OR join_t IS NOT NULL)
      AND EXISTS (SELECT FROM psp.semi_primaries WHERE released_at IS NULL AND acked_t >= 0)
), piece AS (
    SELECT min(global_t) + 20000 AS upto_t FROM psp.replication_log
), removed AS (
    DELETE FROM psp.replication_log
    WHERE global_t <= (SELECT least(a.upto_t, p.upto_t) FROM acknowledged AS a, piece AS p WHERE a.upto_t IS NOT NULL)
    RETURNING global_t
)
UPDATE psp.log_start
SET truncated_t = greatest(truncated_t, (SELECT max(global_t) FROM removed))
RETURNING truncated_t, (SELECT coalesce(p.upto_t < a.upto_t, false) FROM acknowledged AS a, piece AS p)
