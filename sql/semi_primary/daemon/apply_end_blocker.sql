-- Ends the transaction of backend $1 that began at $2, if it is still that one: a running statement is cancelled, a
-- session that is idle in its transaction is terminated, and so is one that has caught the cancel before ($3). If it has
-- reached the commit hook in the meantime, it is left alone; $4 says that it was there already (apply_blockers.sql).
SELECT CASE WHEN state = 'active' AND NOT $3::boolean THEN pg_cancel_backend(pid) ELSE pg_terminate_backend(pid) END
  FROM pg_stat_activity a WHERE pid = $1 AND xact_start::text = $2
   AND ($4::boolean OR NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'relation'
                                   AND l.relation = to_regclass('psp.committing') AND l.granted))
