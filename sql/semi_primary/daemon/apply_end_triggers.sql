-- What the apply worker's backend $1 calls itself: functions that write rows of tables with triggers tell since when these may run (psp.apply_body).
-- Cancels the backend's statement if that is still $2.
SELECT a.application_name, CASE WHEN a.application_name = $2 AND a.state = 'active' THEN pg_cancel_backend(a.pid) ELSE false END AS ended
  FROM pg_stat_activity a WHERE a.pid = $1::integer
