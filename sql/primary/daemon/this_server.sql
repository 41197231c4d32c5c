-- Which database of which server this is; null: a standby. One that is promoted begins a new timeline; a restart does not.
SELECT CASE WHEN NOT pg_is_in_recovery()
            THEN md5(format('%s %s %s', c.system_identifier, d.oid, left(pg_walfile_name(pg_current_wal_lsn()), 8))) END
  FROM pg_control_system() c, pg_database d
 WHERE d.datname = current_database()
