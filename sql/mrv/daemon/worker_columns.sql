-- The columns that are MRVs, as the workers use them. is_shared: other servers change the same values, see README.md.
SELECT column_id, strategy, nr_min, nr_max, ar_goal, ar_min, rt_goal_ms, rt_min_ms,
       min_average_amount_per_record::float8 AS min_average, lower_bound IS NOT NULL AS is_bounded, record_max::float8,
       balance, coalesce(nullif(current_setting('psp_mrv.ring_count', true), '')::integer, @RING_PLACES@) < @RING_PLACES@ AS is_shared
  FROM psp_mrv.columns
 ORDER BY column_id
