-- Up to which number deleted keys may be collected: what every semi-primary has acknowledged, and no transaction of the
-- last $1 milliseconds, whose predecessors a long transaction may lack in its snapshot.
SELECT least(l.truncated_t, t.global_t - 1)
FROM psp.log_start AS l
LEFT JOIN LATERAL (
    SELECT o.global_t FROM psp.tx_log AS o
    WHERE o.decided_ms >= l.clock_ms - $1::bigint AND o.global_t IS NOT NULL
    ORDER BY o.decided_ms
    LIMIT 1
) AS t ON true
