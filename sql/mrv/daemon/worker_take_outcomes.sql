-- The status worker takes all reports out and adds them up, value by value. A response time that is no number counts as
-- not measured.
WITH taken AS (
    DELETE FROM psp_mrv.outcomes
    RETURNING column_id, key, greatest(commits, 0)::bigint AS commits, greatest(aborts, 0)::bigint AS aborts,
              CASE WHEN response_ms >= 0 AND response_ms < 'Infinity' THEN response_ms END AS response_ms
)
SELECT column_id, key::text, sum(commits)::bigint, sum(aborts)::bigint,
       coalesce(sum(commits + aborts) FILTER (WHERE response_ms IS NOT NULL), 0)::bigint, coalesce(sum(response_ms), 0)
  FROM taken JOIN psp_mrv.columns USING (column_id)
 GROUP BY column_id, key
