-- Which transactions block the apply worker's backend $1, directly or through others that they wait for, named by pid and
-- start. A root waits for nobody, except perhaps for the worker, and its COMMIT is not in flight: it is not in the commit
-- hook, or none of $2 is its transaction. Only the hook locks psp.committing, and no application role can. The hook also holds
-- the lock of its transaction's id. (Any session may, but not at the same time.) A session that holds an advisory lock outside
-- of a transaction may keep it for ever and has no transaction to end: a transaction that waits for such a session only is a root.
-- A prepared transaction has no backend (pid 0): `rollback` is the statement that ends it.
WITH RECURSIVE chain AS (
    SELECT $1::integer AS pid
    UNION  -- not ALL: a deadlock is a circle
    SELECT b.pid FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b(pid)
), committing AS (
    SELECT l.pid,
           EXISTS (SELECT FROM pg_locks a JOIN unnest($2::uuid[]) tx ON a.objid = (hashtext(tx::text)::bigint & 4294967295)::oid
                    WHERE a.pid = l.pid AND a.locktype = 'advisory' AND a.granted AND a.objsubid = 2
                      AND a.classid = @LOCK_CLASS@ AND a.database = l.database) AS is_in_flight
      FROM pg_locks l
     WHERE l.relation = to_regclass('psp.committing') AND l.locktype = 'relation' AND l.granted
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT a.pid, a.xact_start::text AS xact_start, a.state,
       w.blockers <@ ARRAY[$1::integer] AND c.is_in_flight IS NOT TRUE AS is_root,
       $1::integer = ANY (w.blockers) AS is_in_deadlock, NULL AS rollback, c.pid IS NOT NULL AS is_committing
  FROM chain JOIN pg_stat_activity a USING (pid) LEFT JOIN committing c USING (pid)
 CROSS JOIN LATERAL (SELECT ARRAY(SELECT b FROM unnest(pg_blocking_pids(a.pid)) b
                                   WHERE NOT EXISTS (SELECT FROM pg_stat_activity i WHERE i.pid = b AND i.xact_start IS NULL))
                            AS blockers) w
 WHERE a.pid <> $1 AND a.backend_type <> 'autovacuum worker' AND a.xact_start IS NOT NULL
UNION ALL
SELECT DISTINCT 0, format('%s %s', p.prepared, p.gid), 'prepared', true, false, format('ROLLBACK PREPARED %L', p.gid),
       false
  FROM chain JOIN pg_locks w ON w.pid = chain.pid AND NOT w.granted
  JOIN pg_locks h ON h.pid IS NULL AND h.granted
   AND (h.locktype, h.database, h.relation, h.transactionid) IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.transactionid)
  JOIN pg_locks x ON x.pid IS NULL AND x.virtualtransaction = h.virtualtransaction AND x.locktype = 'transactionid'
  JOIN pg_prepared_xacts p ON p.transaction = x.transactionid AND p.database = current_database()
