-- A command of psp's own (psp.is_own_command), also in the middle of a statement of a schema change.
CREATE FUNCTION psp.run_own_command(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement CONSTANT text := (SELECT c.statement FROM psp.own_commands c WHERE c.xid = pg_current_xact_id());
BEGIN
    PERFORM psp.end_own_commands(), psp.begin_own_commands();
    EXECUTE command;
    PERFORM psp.end_own_commands();
    IF statement IS NOT NULL THEN
        PERFORM psp.begin_own_commands(statement);
    END IF;
END $$;
