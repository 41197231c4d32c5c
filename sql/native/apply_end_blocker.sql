-- Ends the transaction of backend $1 that began at $2, if it is still that one: a running statement is cancelled, a
-- session that is idle in its transaction is terminated. Not if it has reached the hook in the meantime.
SELECT CASE WHEN state = 'active' THEN pg_cancel_backend(pid) ELSE pg_terminate_backend(pid) END
  FROM pg_stat_activity a WHERE pid = $1 AND xact_start::text = $2
   AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.classid = 7369584
                   AND l.objsubid = 2)
