-- Whether postgres_fdw has a transaction open at another server. It commits there after the last deferred trigger. The locks of
-- this transaction do not always tell: a ROLLBACK TO SAVEPOINT releases them, IMPORT FOREIGN SCHEMA takes none, and a foreign
-- table may have been dropped since. A connection that is in use cannot be closed: one that is left after all were closed is in use.
-- It runs as who adopted the database, because psp_functions may have no right on the extension's schema. It calls only the
-- extension's own functions: nobody but superusers can make functions in C.
CREATE FUNCTION psp.is_in_foreign_transaction() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
    own_functions record;
    used          boolean;
BEGIN
    SELECT l.pronamespace::regnamespace AS schema, CASE l.pronargs WHEN 0 THEN '' ELSE 'false' END AS arguments
      INTO own_functions
      FROM pg_proc l
      JOIN pg_language c ON c.oid = l.prolang AND c.lanname = 'c'
     WHERE l.proname = 'postgres_fdw_get_connections' AND l.probin LIKE '%postgres_fdw%';
    IF NOT FOUND THEN
        RETURN false;
    ELSIF NOT has_schema_privilege(own_functions.schema, 'USAGE') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('psp: %I may not ask postgres_fdw, in schema %s, whether this transaction has written elsewhere', current_user, own_functions.schema),
            HINT = format('GRANT USAGE ON SCHEMA %s TO %I.', own_functions.schema, current_user);
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %s.postgres_fdw_get_connections(%s))', own_functions.schema, own_functions.arguments)
       INTO used;
    IF used THEN
        EXECUTE format('SELECT %s.postgres_fdw_disconnect_all()', own_functions.schema);
        EXECUTE format('SELECT EXISTS (SELECT FROM %s.postgres_fdw_get_connections(%s))', own_functions.schema, own_functions.arguments)
           INTO used;
    END IF;
    RETURN used;
END $$;
