-- The columns that are MRVs, as the workers use them.
SELECT column_id, strategy, nr_min, nr_max, ar_goal, ar_min, rt_goal_ms, rt_min_ms,
       min_average_amount_per_record::float8 AS min_average, lower_bound IS NOT NULL AS is_bounded, record_max::float8,
       balance
  FROM psp_mrv.columns
 ORDER BY column_id
