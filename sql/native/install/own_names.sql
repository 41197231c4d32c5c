-- Some of psp's triggers and functions are at this server and not at another one, where the server module captures, or does not. A schema change that names
-- one, and changes nothing here, would fail there. (What changes or drops one is refused in any case: ddl_guard.sql.)

-- The text of the statement that has just run. context: PL/pgSQL's, from psp's event trigger to the client. Of a function in SQL it is the function's.
CREATE FUNCTION psp.text_of_command(context text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    callers CONSTANT text := substr(context, position(E'\n' IN context) + 1);
BEGIN
    IF position(E'\n' IN context) = 0 THEN
        RETURN (SELECT c.statement FROM psp.own_commands c WHERE c.xid = pg_current_xact_id_if_assigned());
    END IF;
    RETURN coalesce((regexp_match(callers, '^SQL statement "(.*?)"\n(?:SQL|PL/)'))[1],
                    (SELECT string_agg(p.prosrc, ';') FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'sql'
                      WHERE p.proname = (regexp_match(callers, '^SQL function "([^"]+)" '))[1]));
END $$;

CREATE FUNCTION psp.check_names(command text, context text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    IF NOT psp.is_schema_change() THEN
        RETURN;
    ELSIF command IN ('ALTER TABLE', 'DROP TRIGGER')
       AND psp.text_of_command(context) ~* psp.with_gaps('\mtrigger(?: )?(?:if exists(?: )?)?(?:U&"|"?psp_|"PSP_ended")') THEN
        PERFORM psp.refuse_ddl('a trigger of psp', command, 'Its triggers are not the same at all semi-primaries. (A name with U& passes for one of them.)',
                               'Name triggers of your own, or USER.');
    ELSIF command LIKE 'DROP %' AND psp.text_of_command(context) ~* psp.with_gaps('\mif exists [^;]*(?<![\w$."])"?psp"?(?: )?[.]') THEN
        PERFORM psp.refuse_ddl('something in schema psp', command, 'What is in this schema is not the same at all semi-primaries.', 'Leave psp''s own objects out.');
    END IF;
END $$;
