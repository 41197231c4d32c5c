-- CREATE UNIQUE INDEX CONCURRENTLY of a captured table. PostgreSQL makes the index here, in transactions of its own, while rows go on. When it is made,
-- it becomes a schema change, like that of a CREATE UNIQUE INDEX that has taken no time: the primary certifies that all committed rows
-- are here, and writers elsewhere wait for this moment only. The other servers make the index at its place in the stream.
--
-- Until then it holds here and nowhere else, so it may refuse rows that arrive: then it is dropped (obstacles.sql).

-- What comes after the name; null: it is no such statement, or it is not understood.
CREATE FUNCTION psp.rest_of_unique_index(statement text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN (regexp_match(psp.bare_statement(statement), psp.statement_pattern(
        'CREATE UNIQUE INDEX CONCURRENTLY(?: IF NOT EXISTS)?(?: NAME)? (ON .*)'), 'i'))[1];
END $$;

CREATE FUNCTION psp.makes_unique_index(tag text, message text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tag = 'CREATE INDEX' AND psp.rest_of_unique_index(message) IS NOT NULL
           AND NOT psp.is_index_elsewhere(psp.bare_statement(message));
END $$;

-- The statement for the other servers. name: quoted.
CREATE FUNCTION psp.text_of_unique_index(statement text, name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('CREATE UNIQUE INDEX %s %s', name, psp.rest_of_unique_index(statement))
$$;

-- In the transaction that makes the index valid, before the guard looks at it. As for a plain CREATE UNIQUE INDEX, what others have committed
-- arrives first, then the writers here end, and nobody writes the table until the change is decided.
CREATE FUNCTION psp.on_unique_index_made() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    running CONSTANT psp.running_ddl := psp.running_ddl();
    message CONSTANT text := current_query();
    made    record;
BEGIN
    IF NOT coalesce(running.is_late AND running.depth = 1, false) THEN
        RETURN;
    END IF;
    SELECT c.objid, i.indrelid::regclass AS relation, quote_ident(x.relname) AS name INTO made
      FROM pg_event_trigger_ddl_commands() c JOIN pg_index i ON i.indexrelid = c.objid JOIN pg_class x ON x.oid = c.objid;
    IF NOT FOUND THEN
        RETURN;  -- IF NOT EXISTS, and there is one
    END IF;
    PERFORM psp.hold_tables(psp.text_of_unique_index(message, made.name), psp.role_of_statement());
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', made.relation);
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = made.objid AND i.indisvalid) THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('psp: index %s has been dropped meanwhile', made.name);
    END IF;
    PERFORM psp.begin_own_commands(message);
END $$;
