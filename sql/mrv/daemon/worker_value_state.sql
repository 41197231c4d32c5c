-- A value as it stands: records (null: there is no such row), and amounts above the lower bound.
SELECT v.records, (v.total - coalesce(c.lower_bound, 0))::float8 AS amount, v.smallest::float8, v.largest::float8,
       power(10::float8, -coalesce(scale(v.total), 0)) AS unit
  FROM psp_mrv.columns c
 CROSS JOIN LATERAL psp_mrv.value_state(c.column_id, $2::text[]) v
 WHERE c.column_id = $1
