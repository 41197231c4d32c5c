-- Which database of which server answers, its timeline, and how far the WAL is on its disk; a standby has neither of these two. One that is
-- promoted begins a new timeline; a restart does not.
SELECT s.is_standby, c.system_identifier, d.oid,
       CASE WHEN NOT s.is_standby THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
       CASE WHEN NOT s.is_standby THEN pg_current_wal_flush_lsn() - '0/0'::pg_lsn END
  FROM pg_control_system() c, pg_database d, pg_is_in_recovery() s (is_standby)
 WHERE d.datname = current_database()
