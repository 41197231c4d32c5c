-- Who holds up the apply worker's backend $1: whole transactions, named by pid and start.
SELECT a.pid, a.xact_start::text AS xact_start, a.state
  FROM unnest(pg_blocking_pids($1)) AS b(pid) JOIN pg_stat_activity a ON a.pid = b.pid
 WHERE a.backend_type = 'client backend' AND a.xact_start IS NOT NULL
