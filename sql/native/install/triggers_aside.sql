-- Triggers of the application that fire where rows of other servers are written (psp.loud_triggers) and fail there: they stand in no row's way.
-- docs/decisions/49. The functions that write rows call this one (sql/semi_primary/install/apply_functions.sql).

-- Tells other sessions that such triggers may run now (`number`: of this captured table), or that they have (null): by locks that nobody waits for. The
-- session's name or a setting would not do, since code of a trigger may change them. Each call of a function that writes rows has its own number, and its locks last until
-- the transaction ends, or its changes are undone. (Their first 16 bits are 'ps', and 'pt' for the end.)
CREATE FUNCTION psp.mark_triggers(number integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    begun CONSTANT bigint := (SELECT coalesce(max(l.classid::bigint & 65535), 0) FROM pg_locks l
                               WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.objsubid = 1 AND l.classid::bigint >> 16 = x'7073'::integer);
    call  CONSTANT bigint := begun + (number IS NOT NULL)::integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared((CASE WHEN number IS NULL THEN x'7074' ELSE x'7073' END::integer::bigint << 48)
                                         | ((call & 65535) << 32) | coalesce(number, 0));
END $$;

-- Sets those of a captured table aside, and returns which: they fire for rows that are written here only. It takes the table from its caller, so that no other
-- code in the worker's session can name one. Without a problem: they are about to run, and are set aside if the daemon has had to end them before
-- (psp.watch_triggers). (lc_messages: plain_ddl_start.sql.)
CREATE FUNCTION psp.set_triggers_aside(problem text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_variable
DECLARE
    context text;
    number  integer;
    found   record;
    told    text;
BEGIN
    GET DIAGNOSTICS context = PG_CONTEXT;
    number := (regexp_match(context, '^[^\n]*(?:\nSQL statement "[^\n]*")?\nPL/pgSQL function psp\.apply_[a-z_]+_(\d+)\('))[1];
    IF number IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'psp: only a function that writes rows sets triggers aside';
    ELSIF problem IS NULL THEN
        DELETE FROM psp.triggers_to_set_aside t WHERE t.table_id = number RETURNING t.problem INTO problem;
        IF problem IS NULL THEN
            PERFORM psp.mark_triggers(number);
            RETURN NULL;
        END IF;
    END IF;
    PERFORM psp.begin_own_commands();
    FOR found IN SELECT l.relation, l.name, l.enabled FROM psp.loud_triggers l JOIN psp.captured_relations r USING (relation) WHERE r.table_id = number LOOP
        EXECUTE format('ALTER TABLE ONLY %s ENABLE TRIGGER %I', found.relation::regclass, found.name);
        INSERT INTO psp.triggers_aside VALUES (found.relation, found.name, found.enabled, problem)
            ON CONFLICT ON CONSTRAINT triggers_aside_pkey DO UPDATE SET enabled = EXCLUDED.enabled, problem = EXCLUDED.problem;
        told := concat_ws(', ', told, format('%I of %s', found.name, found.relation::regclass));
    END LOOP;
    PERFORM psp.end_own_commands(), psp.note_table(number);
    RETURN told;
END $$;

-- Whether an error of a statement that writes rows may be a trigger's: not if it can pass, and no code of the application has run. (Each language begins a line of
-- the context of an error with its name: PL/…) A statement in the context may be as long as a trigger likes: then the end is looked at, where its function is.
CREATE FUNCTION psp.may_be_of_trigger(state text, context text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT left(state, 2) <> ALL ('{40,53,55,57,58,XX}'::text[]) OR right(context, 100000) ~ '(^|\n)PL/\w+ (?!function psp\.)'
$$;

-- A statement in a trigger: its tag; null: psp.ddl.
CREATE FUNCTION psp.refuse_in_trigger(tag text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tag IS NULL THEN
        PERFORM psp.refuse_statement('cannot be called by a trigger', 'Call it in a statement of its own.');
    END IF;
    PERFORM psp.refuse_plain_ddl(
        format('%s in a trigger is not supported', tag),
        'It would be a schema change of all semi-primaries each time that the trigger fires.',
        concat(CASE tag WHEN 'REFRESH MATERIALIZED VIEW' THEN 'Let a scheduler refresh the view: that goes to all semi-primaries. '
                        ELSE 'Run it by a statement of its own. ' END,
               'Or put PERFORM set_config(''psp.schema_changes'', ''local'', true) before it in the trigger''s function, and the same with '''' after it: then ',
               CASE tag WHEN 'REFRESH MATERIALIZED VIEW' THEN 'the view is refreshed only where the trigger fires.'
                        ELSE 'what changes no captured table stays here.' END));
END $$;
