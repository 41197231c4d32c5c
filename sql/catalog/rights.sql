-- What a role that is no superuser lacks to adopt this database, to let it join, and to run the daemon (docs/adopting.md); a row for each problem, none for a
-- superuser. PostgreSQL 15 knows no SET among the rights of members.
WITH me AS (
    SELECT r.rolname AS name FROM pg_roles r WHERE r.rolname = current_user AND NOT r.rolsuper
), daemon AS (
    SELECT r.oid, r.rolname AS name FROM pg_roles r WHERE r.rolname = 'psp_semi_primary'
), owned AS (  -- what will be captured, as far as rights are concerned
    SELECT c.oid, c.relowner, format('%I.%I', n.nspname, c.relname) AS label
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'S') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'psp', 'psp_mrv')
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
), owners AS (
    SELECT r.oid, r.rolname AS name, r.rolsuper, min(o.label) AS label FROM owned o JOIN pg_roles r ON r.oid = o.relowner GROUP BY r.oid, r.rolname, r.rolsuper
), memberships AS (
    SELECT r.oid, pg_has_role(r.oid, 'USAGE') AND CASE WHEN current_setting('server_version_num')::int >= 160000 THEN pg_has_role(r.oid, 'SET')
                                                       ELSE pg_has_role(r.oid, 'MEMBER') END AS is_full
      FROM pg_roles r
), origin_functions AS (
    SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')) AS callable FROM pg_proc p
     WHERE p.pronamespace = 'pg_catalog'::regnamespace
       AND p.proname IN ('pg_replication_origin_oid', 'pg_replication_origin_create', 'pg_replication_origin_session_setup',
                         'pg_replication_origin_session_is_setup')
), problems(severity, object, problem, hint) AS (
    SELECT 'error', 'role ' || o.name, format('%I is not a member of it, and it owns %s: psp makes functions for it', me.name, o.label),
           CASE WHEN o.rolsuper THEN 'ALTER … OWNER TO a role of the application: this one is a superuser' ELSE format('GRANT %I TO %I', o.name, me.name) END
      FROM me, owners o
     WHERE NOT (SELECT m.is_full FROM memberships m WHERE m.oid = o.oid)
    UNION ALL
    SELECT 'error', 'role ' || needed.name, 'there is none', format('CREATE ROLE %s %s', needed.name, needed.login)
      FROM me, (VALUES ('psp_functions', 'NOLOGIN'), ('psp_semi_primary', 'LOGIN')) needed(name, login)
     WHERE to_regrole(needed.name) IS NULL
    UNION ALL
    SELECT 'error', 'role psp_functions', format('%I is not a member of it: psp''s functions in the application''s sessions are to belong to it', me.name),
           format('GRANT psp_functions TO %I', me.name)
      FROM me JOIN pg_roles f ON f.rolname = 'psp_functions' JOIN memberships m ON m.oid = f.oid WHERE NOT m.is_full
    UNION ALL
    SELECT 'error', 'database ' || current_database(), format('%I may not create a schema in it', me.name),
           format('GRANT CREATE ON DATABASE %I TO %I', current_database(), me.name)
      FROM me WHERE to_regnamespace('psp') IS NULL AND NOT has_database_privilege(current_database(), 'CREATE')
    UNION ALL
    SELECT 'error', 'database ' || current_database(), 'it has no dblink, and only superusers may install it',
           format('CREATE SCHEMA psp_dblink AUTHORIZATION %I; CREATE EXTENSION dblink SCHEMA psp_dblink', me.name)
      FROM me WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink')
    UNION ALL
    SELECT 'error', 'extension dblink', format('%I may not give the use of its schema %I to psp_functions', me.name, n.nspname),
           format('GRANT USAGE ON SCHEMA %I TO psp_functions', n.nspname)
      FROM me JOIN pg_extension e ON e.extname = 'dblink' JOIN pg_namespace n ON n.oid = e.extnamespace
     WHERE NOT has_schema_privilege(n.oid, 'USAGE WITH GRANT OPTION')
       AND NOT coalesce((SELECT has_schema_privilege(f.oid, n.oid, 'USAGE') FROM pg_roles f WHERE f.rolname = 'psp_functions'), false)
    UNION ALL
    SELECT 'error', 'role ' || o.name, 'it may not make temporary functions, by which psp reads its tables as this role',
           format('GRANT TEMPORARY ON DATABASE %I TO %I', current_database(), o.name)
      FROM me, owners o WHERE NOT has_database_privilege(o.oid, current_database(), 'TEMPORARY')
    UNION ALL
    SELECT 'error', format('constraint %s on %s', quote_ident(k.conname), o.label), 'it is DEFERRABLE: only superusers may let the apply worker wait for its check',
           'make it NOT DEFERRABLE'
      FROM me, owned o JOIN pg_constraint k ON k.conrelid = o.oid WHERE k.contype IN ('p', 'u', 'x') AND k.condeferrable
    UNION ALL
    SELECT 'warning', 'role psp_semi_primary', 'it may not set session_replication_role, which the daemon''s apply worker needs',
           'GRANT SET ON PARAMETER session_replication_role TO psp_semi_primary, or what the service has for it'
      FROM me LEFT JOIN daemon ON true WHERE daemon.oid IS NULL OR NOT has_parameter_privilege(daemon.oid, 'session_replication_role', 'SET')
    UNION ALL
    SELECT 'note', 'role psp_semi_primary', 'it may not set deadlock_timeout: deadlocks with rows of other servers last as long as the server''s, and may end local transactions',
           'GRANT SET ON PARAMETER deadlock_timeout TO psp_semi_primary'
      FROM me LEFT JOIN daemon ON true WHERE daemon.oid IS NULL OR NOT has_parameter_privilege(daemon.oid, 'deadlock_timeout', 'SET')
    UNION ALL
    SELECT 'warning', 'role psp_semi_primary', needed.lost, format('GRANT %s TO psp_semi_primary', needed.role)
      FROM me LEFT JOIN daemon ON true
      CROSS JOIN (VALUES ('pg_monitor', 'it is not a member of pg_monitor: sessions in the way of committed rows are not seen'),
                         ('pg_signal_backend', 'it is not a member of pg_signal_backend: sessions in the way of committed rows are not ended')) needed(role, lost)
     WHERE daemon.oid IS NULL OR NOT pg_has_role(daemon.oid, needed.role, 'USAGE')
    UNION ALL
    SELECT 'warning', 'role ' || me.name, 'it is no superuser, so there are no event triggers: nobody is kept from changing a captured table, whose rows are refused then, '
           'and schema changes and TRUNCATE of other servers stop this one',
           'adopt as a superuser, or release the cluster for each schema change'
      FROM me
    UNION ALL
    SELECT 'warning', 'role ' || me.name, 'it is no superuser, so data_directory is not looked at: a copy of the whole server passes for this one',
           'start no copy while this one runs'
      FROM me
    UNION ALL
    SELECT 'warning', 'role ' || me.name, format('it owns %s: who logs in as it can forge commits', o.label), 'adopt as a role that no application uses'
      FROM me JOIN owners o ON o.name = me.name
    UNION ALL
    SELECT 'note', 'role ' || me.name, 'it may not use replication origins: consumers of change data see rows of other servers as local ones',
           format('GRANT EXECUTE ON FUNCTION pg_replication_origin_oid, pg_replication_origin_create, pg_replication_origin_session_setup, '
                  'pg_replication_origin_session_is_setup, pg_replication_origin_drop TO %I', me.name)
      FROM me, origin_functions f WHERE NOT f.callable AND current_setting('wal_level') = 'logical'
    UNION ALL
    SELECT 'error', 'schema ' || n.nspname, format('%I may not use it: psp asks postgres_fdw there whether a transaction has written elsewhere', me.name),
           format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, me.name)
      FROM me JOIN pg_extension e ON e.extname = 'postgres_fdw' JOIN pg_namespace n ON n.oid = e.extnamespace
     WHERE NOT has_schema_privilege(n.oid, 'USAGE')
)
SELECT severity, object, problem, hint FROM problems
