-- Ends the transaction of backend $1 that began at $2, if it is still that one: a running statement is cancelled, a
-- session that is idle in its transaction is terminated.
SELECT CASE WHEN state = 'active' THEN pg_cancel_backend(pid) ELSE pg_terminate_backend(pid) END
  FROM pg_stat_activity WHERE pid = $1 AND xact_start::text = $2
