-- The replication origin of this database's apply worker (install/origin.sql), if it ever had one. Who may not drop it could not make it.
DO $$
BEGIN
    IF pg_catalog.has_function_privilege('pg_catalog.pg_replication_origin_drop(pg_catalog.text)', 'EXECUTE') THEN
        PERFORM pg_catalog.pg_replication_origin_drop(o.roname)
           FROM pg_catalog.pg_replication_origin o JOIN pg_catalog.pg_database d ON o.roname OPERATOR(pg_catalog.=) pg_catalog.format('psp_%s', d.oid)
          WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();
    END IF;
END $$;
