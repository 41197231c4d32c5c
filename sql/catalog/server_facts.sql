-- What the schema tool must know about a server and a database; ServerFacts in schema_tool/psp/schema/server.py.
SELECT to_regclass('psp.identity') IS NOT NULL AND to_regclass('psp.converted_tables') IS NULL AS adopted,
       to_regclass('psp.converted_tables') IS NOT NULL AS converted,
       current_user AS role,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
       (SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'dblink') AS dblink_schema,
       EXISTS (SELECT FROM pg_available_extensions WHERE name = 'dblink') AS dblink_available,
       EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'dblink'
               WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass
                 AND (has_schema_privilege('public', e.extnamespace, 'USAGE') OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user))
                 AND d.deptype = 'e' AND has_function_privilege('public', d.objid, 'EXECUTE'))
           AS dblink_public,
       CASE WHEN current_setting('psp.serializable', true) = 'repeatable read' THEN 'repeatable read'
            ELSE current_setting('default_transaction_isolation') END AS default_isolation,
       ARRAY(SELECT r.rolname::text FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
             WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
               AND 'default_transaction_isolation=serializable' = ANY (s.setconfig)
               AND current_setting('psp.serializable', true) IS DISTINCT FROM 'repeatable read'
               AND 'psp.serializable=repeatable read' <> ALL (s.setconfig)) AS serializable_roles,
       ARRAY(SELECT gid FROM pg_prepared_xacts WHERE database = current_database()) AS prepared_transactions,
       current_setting('max_prepared_transactions')::int AS prepared_transactions_max,
       current_setting('max_locks_per_transaction')::int AS locks_per_transaction,
       -- Of so many transactions the server has room for that many locks each; all of them share it.
       (SELECT sum(setting::int)::int + 1 FROM pg_settings
         WHERE name IN ('max_connections', 'autovacuum_max_workers', 'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions'))
           AS transactions_max,
       (SELECT count(*) FROM pg_largeobject_metadata) AS large_objects,
       ARRAY(SELECT t.evtname::text FROM pg_event_trigger t JOIN pg_proc f ON f.oid = t.evtfoid
             JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname <> 'psp') AS event_triggers,
       ARRAY(SELECT n.nspname || '.' || c.relname
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'm' ORDER BY 1) AS materialized_views,
       ARRAY(SELECT s.subname::text FROM pg_subscription s
             WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())) AS subscriptions,
       ARRAY(SELECT k.conrelid::regclass::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
             WHERE k.contype = 'f' AND c.relpersistence = 't'
             UNION
             SELECT i.inhrelid::regclass::text FROM pg_inherits i
             JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
             WHERE c.relpersistence = 't' AND p.relpersistence = 'p') AS temporary_tables,
       coalesce(has_function_privilege(to_regprocedure('psp.guard_problems()'), 'EXECUTE'), false) AS guarded
