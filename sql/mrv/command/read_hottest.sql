-- psp mrv status: the values with most aborts, then most commits, in the last window of each.
SELECT c.schema_name || '.' || c.table_name || '.' || c.column_name AS mrv, s.key, s.commits, s.aborts, s.response_ms,
       s.lock_waiters, s.records, s.last_change, s.window_ended
  FROM psp_mrv.status s JOIN psp_mrv.columns c USING (column_id)
 ORDER BY s.aborts DESC, s.commits DESC, s.key LIMIT %(count)s
