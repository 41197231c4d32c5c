-- What the log takes on the disk, and for how many milliseconds its oldest entry has been there: of the time in which daemons have served,
-- as of the last tick of log_start.clock_ms. 0: it is empty.
SELECT pg_total_relation_size('psp.replication_log'),
       coalesce((SELECT s.clock_ms - t.decided_ms
                   FROM (SELECT tx_id FROM psp.replication_log ORDER BY global_t LIMIT 1) AS oldest
                   JOIN psp.tx_log t USING (tx_id)), 0)
  FROM psp.log_start s
