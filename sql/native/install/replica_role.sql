-- session_replication_role = replica switches capture off. Only the apply worker may write captured tables in that
-- role: it writes down which session it is. (No setting and no advisory lock: every role could have those.) A pid
-- may come again after a restart of the server, so the server's start is written down, too.
CREATE UNLOGGED TABLE psp.apply_session (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    pid          integer NOT NULL,
    server_start timestamptz NOT NULL,
    depth        integer NOT NULL DEFAULT 1  -- of a trigger of a table that the worker writes itself; triggers of others are not deeper
) WITH (fillfactor = 10);

-- Whether a statement that fires a trigger is the worker's own, of rows: by PG_CONTEXT, in which the trigger's function is the first line. PostgreSQL evaluates
-- expressions of indexes, CHECKs, domains and generated columns within such a statement, or within the server module, and their code may run statements.
-- So the first line after the trigger's is the worker's, none of its kind is around it, and all of it runs in a function psp.apply_…, at the end. (A name in
-- quotes may look like anything, and that of an SQL function ends behind its last quote. Words around them are in the language of lc_messages. The second form: with
-- quote_all_identifiers. E: under any standard_conforming_strings.)
CREATE FUNCTION psp.is_of_rows(context text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    mark   CONSTANT pg_catalog.text := psp.mark_of_rows();
    around CONSTANT pg_catalog.text := pg_catalog.substr(context, pg_catalog.strpos(context, E'\n') OPERATOR(pg_catalog.+) 1);
    found  CONSTANT pg_catalog.int4 := pg_catalog.strpos(around, mark);
BEGIN
    RETURN around OPERATOR(pg_catalog.=) context  -- there is one line: the worker's session has sent the statement itself
           OR found OPERATOR(pg_catalog.>) 0
           AND pg_catalog.strpos(pg_catalog.left(around, found), E'\n') OPERATOR(pg_catalog.=) 0
           AND pg_catalog.strpos(pg_catalog.substr(around, found OPERATOR(pg_catalog.+) 1), mark) OPERATOR(pg_catalog.=) 0
           AND around OPERATOR(pg_catalog.~) E'\n(?:(?:[^"\n]*[^"\na-z0-9_$.])?psp[.]apply_[a-z_]+_[0-9]+[(][^"\n]*'
                                             '|[^"\n]*"psp"[.]"apply_[a-z_]+_[0-9]+"[(][^\n]*[)][^"\n]*)$';
END $$;

-- ENABLE REPLICA: it does not fire in other sessions. Called for each statement of the apply worker, so it does
-- without a SET clause. What a trigger of the application writes in the worker's session would be captured nowhere, too.
CREATE FUNCTION psp.refuse_replica() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    allowed pg_catalog.int4;  -- null: this is not the worker
    context pg_catalog.text;
BEGIN
    SELECT s.depth INTO allowed FROM psp.apply_session s
     WHERE s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
       AND s.server_start OPERATOR(pg_catalog.=) pg_catalog.pg_postmaster_start_time();
    GET DIAGNOSTICS context = PG_CONTEXT;
    IF allowed OPERATOR(pg_catalog.<) pg_catalog.pg_trigger_depth() THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format('psp: %s of %I.%I by a trigger that fires for rows of other servers is not supported', TG_OP,
                                        TG_TABLE_SCHEMA, TG_TABLE_NAME),
            DETAIL = 'What it writes here would be at this semi-primary only.',
            HINT = 'ALTER TABLE … ENABLE TRIGGER …: then it fires where a row is written first, and what it writes goes to all servers.';
    -- (Deeper: a trigger of psp's own has said so.)
    ELSIF allowed OPERATOR(pg_catalog.=) 1 AND NOT psp.is_of_rows(context) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format('psp: %s of %I.%I by a function that an index, a CHECK or a generated column calls for rows of other servers is not supported',
                                        TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
            DETAIL = 'What it writes here would be at this semi-primary only.',
            HINT = 'A trigger may write: it fires where a row is written first.';
    ELSIF allowed IS NULL THEN
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
