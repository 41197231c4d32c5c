-- Which backends block the apply worker's backend $1, directly or through others that they wait for: whole transactions,
-- named by pid and start. A root waits for nobody, except perhaps for the worker, and its COMMIT has not reached the hook,
-- which its lock (7369584, …) would show.
WITH RECURSIVE chain AS (
    SELECT $1::integer AS pid
    UNION  -- not ALL: a deadlock is a circle
    SELECT b.pid FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b(pid)
), committing AS (
    SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 7369584 AND objsubid = 2 AND granted
)
SELECT a.pid, a.xact_start::text AS xact_start, a.state,
       w.blockers <@ ARRAY[$1::integer] AND NOT EXISTS (SELECT FROM committing c WHERE c.pid = a.pid) AS is_root,
       $1::integer = ANY (w.blockers) AS is_in_deadlock
  FROM chain JOIN pg_stat_activity a USING (pid) CROSS JOIN LATERAL (SELECT pg_blocking_pids(a.pid) AS blockers) w
 WHERE a.pid <> $1 AND a.backend_type = 'client backend' AND a.xact_start IS NOT NULL
