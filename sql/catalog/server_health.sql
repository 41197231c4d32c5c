-- psp doctor: what is to be known of any server, and of the database in which the session is. Reads catalogs and statistics only.
-- Ages and pauses are in seconds.
SELECT current_setting('server_version_num')::integer AS version_num,
       pg_is_in_recovery() AS is_standby,
       extract(epoch FROM clock_timestamp())::float AS clock_s,
       r.rolsuper AS superuser,
       -- Not as this session has set them.
       (SELECT jsonb_object_agg(s.name, s.reset_val) FROM pg_settings s
         WHERE s.name IN ('archive_mode', 'autovacuum', 'autovacuum_freeze_max_age', 'default_transaction_isolation', 'fsync', 'full_page_writes',
                          'idle_in_transaction_session_timeout', 'listen_addresses', 'max_prepared_transactions', 'ssl', 'statement_timeout',
                          'synchronous_commit', 'synchronous_standby_names', 'track_counts', 'transaction_timeout', 'wal_sender_timeout')) AS settings,
       ARRAY(SELECT concat_ws(' ', 'role ' || x.rolname, 'database ' || d.datname) || ': ' || c.setting
               FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
               LEFT JOIN pg_roles x ON x.oid = s.setrole
               LEFT JOIN pg_database d ON d.oid = s.setdatabase
              WHERE s.setdatabase IN (0, h.oid)
                AND split_part(c.setting, '=', 1) IN ('default_transaction_isolation', 'statement_timeout', 'transaction_timeout')
              ORDER BY 1) AS overrides,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('pid', a.pid, 'role', a.usename, 'state', a.state,
                                                     'seconds', extract(epoch FROM clock_timestamp() - a.xact_start)::integer) ORDER BY a.xact_start), '[]')
          FROM pg_stat_activity a
         WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
           AND a.xact_start < clock_timestamp() - make_interval(mins => 1)) AS transactions,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('gid', p.gid, 'database', p.database, 'role', p.owner,
                                                     'seconds', extract(epoch FROM clock_timestamp() - p.prepared)::integer) ORDER BY p.prepared), '[]')
          FROM pg_prepared_xacts p) AS prepared,
       (SELECT jsonb_agg(jsonb_build_object('name', d.datname, 'xids', age(d.datfrozenxid), 'multixacts', mxid_age(d.datminmxid)) ORDER BY d.datname)
          FROM pg_database d) AS databases,
       ARRAY(SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE c.relkind IN ('r', 'm') AND EXISTS (SELECT FROM pg_options_to_table(c.reloptions) p
                                                         WHERE p.option_name = 'autovacuum_enabled' AND lower(p.option_value) IN ('false', 'off', 'no', '0'))
              ORDER BY 1) AS without_autovacuum,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.slot_name, 'active', s.active,
                                                     'bytes', CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_lsn() - s.restart_lsn)::bigint END)
                                  ORDER BY s.slot_name), '[]')
          FROM pg_replication_slots s) AS slots,
       -- Nothing of them for a role that may not see it (pg_monitor).
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', w.application_name, 'state', w.state, 'sync_state', w.sync_state) ORDER BY w.pid), '[]')
          FROM pg_stat_replication w) AS senders,
       pg_database_size(current_database()) AS database_bytes,
       (SELECT a.last_failed_time > coalesce(a.last_archived_time, '-infinity') FROM pg_stat_archiver a) IS TRUE AS archiving_fails,
       (SELECT coalesce(jsonb_object_agg(d.rolname, jsonb_build_object(
                   'superuser', d.rolsuper, 'login', d.rolcanlogin,
                   'pg_monitor', pg_has_role(d.oid, 'pg_monitor', 'USAGE'),
                   'pg_read_all_stats', pg_has_role(d.oid, 'pg_read_all_stats', 'USAGE'),
                   'pg_signal_backend', pg_has_role(d.oid, 'pg_signal_backend', 'USAGE'),
                   'session_replication_role', has_parameter_privilege(d.oid, 'session_replication_role', 'SET'))), '{}')
          FROM pg_roles d WHERE d.rolname IN ('psp_primary', 'psp_semi_primary', 'psp_functions')) AS roles,
       -- Roles that reach psp's token or rows past its functions (docs/security.md).
       ARRAY(SELECT format('%s: member of %s', x.rolname, g.rolname) FROM pg_roles x
               JOIN pg_roles g ON g.rolname IN ('pg_read_all_data', 'pg_write_all_data', 'psp_primary', 'psp_semi_primary', 'psp_functions')
              WHERE x.oid <> g.oid AND NOT x.rolsuper AND x.rolname !~ '^pg_' AND x.oid IS DISTINCT FROM o.oid AND pg_has_role(x.oid, g.oid, 'MEMBER')
              UNION ALL
             SELECT format('%s: CREATEROLE', x.rolname) FROM pg_roles x
              WHERE x.rolcreaterole AND NOT x.rolsuper AND x.rolname !~ '^pg_' AND current_setting('server_version_num')::integer < 160000
              ORDER BY 1) AS mighty,
       -- Where everybody may make objects, in the search_path of sessions perhaps.
       ARRAY(SELECT n.nspname::text FROM pg_namespace n
              WHERE n.nspname !~ '^pg_' AND has_schema_privilege('public', n.oid, 'CREATE') ORDER BY 1) AS open_schemas
  FROM pg_roles r
  JOIN pg_database h ON h.datname = current_database()
  LEFT JOIN pg_namespace n ON n.nspname = 'psp'
  LEFT JOIN pg_roles o ON o.oid = n.nspowner
 WHERE r.rolname = current_user
