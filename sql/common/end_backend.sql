-- Ends the backend with pid $1 that was started at $2 and waits for $3 milliseconds until it is gone.
-- No row: it is gone already.
SELECT pg_terminate_backend(pid, $3)
  FROM pg_stat_activity
 WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2
