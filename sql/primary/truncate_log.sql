-- Removes from the log what every registered SP has acknowledged, and nothing above what joining SPs copy, some
-- thousand at a time. Without any SP nothing is removed. Returns where the log begins.
WITH removed AS (
    DELETE FROM psp.replication_log
    WHERE global_t <= least(
        (SELECT min(coalesce(join_t, acked_t)) FROM psp.semi_primaries
         WHERE released_at IS NULL AND (acked_t >= 0 OR join_t IS NOT NULL)),
        (SELECT min(global_t) + 20000 FROM psp.replication_log))
      AND EXISTS (SELECT FROM psp.semi_primaries WHERE released_at IS NULL AND acked_t >= 0)
    RETURNING global_t
)
UPDATE psp.log_start
SET truncated_t = greatest(truncated_t, (SELECT max(global_t) FROM removed))
RETURNING truncated_t
