-- The role as which psp-semi-primary logs in, and its rights (docs/security.md): on psp's tables and functions, to write rows
-- without capturing them again, to see which sessions are in the way of those, and to end them. It has no right on the
-- application's tables: the functions that belong to the tables' owners write there. Run after grants.sql.
DO $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'GRANT pg_monitor TO psp_semi_primary', 'GRANT pg_signal_backend TO psp_semi_primary',
        'GRANT SET ON PARAMETER session_replication_role TO psp_semi_primary', 'GRANT SET ON PARAMETER deadlock_timeout TO psp_semi_primary',
        pg_catalog.format('GRANT CONNECT ON DATABASE %I TO psp_semi_primary', pg_catalog.current_database())]
    LOOP
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN insufficient_privilege THEN  -- the administrator does it; psp schema check tells what is missing (catalog/rights.sql)
        END;
    END LOOP;
    GRANT USAGE ON SCHEMA psp TO psp_semi_primary;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA psp TO psp_semi_primary;
    REVOKE ALL ON psp.own_commands, psp.local_objects FROM psp_semi_primary;  -- the guard lets pass the transactions in it
    -- Not dblink's, with which it could reach other servers. In one statement: after each, the guard looks at the whole catalog.
    SELECT pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO psp_semi_primary', pg_catalog.string_agg(f.oid::pg_catalog.regprocedure::text, ', '))
      INTO statement
      FROM pg_catalog.pg_proc f
     WHERE f.pronamespace = 'psp'::pg_catalog.regnamespace
       AND f.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = f.oid AND d.deptype = 'e')
       AND NOT pg_catalog.has_function_privilege('psp_semi_primary', f.oid, 'EXECUTE')  -- those of tables have been given
    HAVING pg_catalog.count(*) > 0;
    IF FOUND THEN
        EXECUTE statement;
    END IF;
    -- Multi-Record Values: what their transactions met is told there.
    IF pg_catalog.to_regclass('psp_mrv.outcomes') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA psp_mrv TO psp_semi_primary;
        GRANT SELECT ON psp_mrv.columns TO psp_semi_primary;
        GRANT INSERT ON psp_mrv.outcomes TO psp_semi_primary;
    END IF;
END $$;

-- What the guard keeps (ddl_guard.sql): from here on nobody takes away a function, or the daemon's right to call it.
INSERT INTO psp.own_functions (name, for_daemon)
SELECT p.proname, pg_catalog.bool_or(pg_catalog.has_function_privilege('psp_semi_primary', p.oid, 'EXECUTE'))
  FROM pg_catalog.pg_proc p
 WHERE p.pronamespace = 'psp'::pg_catalog.regnamespace
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                    WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e')
 GROUP BY p.proname;
