-- session_replication_role = replica switches capture off. Only the apply worker may write captured tables in that
-- role: it writes down which session it is. (No setting and no advisory lock: every role could have those.) A pid
-- may come again after a restart of the server, so the server's start is written down, too.
CREATE UNLOGGED TABLE psp.apply_session (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    pid          integer NOT NULL,
    server_start timestamptz NOT NULL,
    depth        integer NOT NULL DEFAULT 1  -- of a trigger of a table that the worker writes itself; triggers of others are not deeper
) WITH (fillfactor = 10);

-- ENABLE REPLICA: it does not fire in other sessions. Called for each statement of the apply worker, so it does
-- without a SET clause. What a trigger of the application writes in the worker's session would be captured nowhere, too.
CREATE FUNCTION psp.refuse_replica() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    is_nested pg_catalog.bool;
BEGIN
    SELECT s.depth OPERATOR(pg_catalog.<) pg_catalog.pg_trigger_depth() INTO is_nested FROM psp.apply_session s
     WHERE s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
       AND s.server_start OPERATOR(pg_catalog.=) pg_catalog.pg_postmaster_start_time();
    IF is_nested THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format('psp: %s of %I.%I by a trigger that fires for rows of other servers is not supported', TG_OP,
                                        TG_TABLE_SCHEMA, TG_TABLE_NAME),
            DETAIL = 'What it writes here would be at this semi-primary only.',
            HINT = 'ALTER TABLE … ENABLE TRIGGER …: then it fires where a row is written first, and what it writes goes to all servers.';
    ELSIF is_nested IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format(
                'psp: %s of %I.%I with session_replication_role = replica is not supported', TG_OP,
                TG_TABLE_SCHEMA, TG_TABLE_NAME),
            DETAIL = 'In this role psp''s triggers do not fire: the change would reach this semi-primary only.',
            HINT = 'SET session_replication_role = origin.';
    END IF;
    RETURN NULL;
END $$;

-- What psp writes in the worker's session by a trigger of its own.
CREATE FUNCTION psp.write_in_worker(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.apply_session SET depth = pg_trigger_depth() + 1;
    EXECUTE command;
    UPDATE psp.apply_session SET depth = DEFAULT;
END $$;
