-- Ends the sessions of roles that may not connect to this database any more: those that were there when it began to join.
SELECT pg_catalog.pg_terminate_backend(a.pid)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = pg_catalog.current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid()
   AND NOT pg_catalog.has_database_privilege(a.usesysid, a.datid, 'CONNECT')
   AND (pg_catalog.pg_has_role(a.usesysid, 'USAGE') OR pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'))
