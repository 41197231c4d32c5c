-- Ends every other session of this database that holds the advisory lock ($1, $2): an older daemon's executors.
SELECT pg_terminate_backend(pid)
  FROM pg_locks
 WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND pid <> pg_backend_pid()
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
