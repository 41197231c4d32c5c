-- DDL without psp.ddl: an ordinary statement of a role that may call psp.ddl is a schema change of the cluster, like one that
-- psp.ddl runs. It runs here by itself. When it has ended, it becomes a row of psp.schema_history (schema_history.sql).
--
-- Event triggers know a statement's tag and its objects, but not its text. current_query() is the client's whole message: if that
-- may have several statements, the daemon tells where each one is (semi_primary/hook_server/message_statements.h).
-- docs/schema-changes.md has what is refused, docs/decisions/33 why.

-- What a session notes of the DDL statement that it runs, in its setting psp.running_ddl: a table would grow with each statement of
-- a transaction. Who may set it may as well call psp.ddl, or only harms himself.
CREATE TYPE psp.running_ddl AS (
    message_at   numeric,  -- statement_timestamp(): all statements of a message have the same one
    n            integer,  -- in the message: 1, 2, …
    depth        integer,  -- 1: the statement itself runs; more: statements inside it, of an extension for example
    tag          text,
    goes         boolean,  -- with the stream, if it changes anything permanent
    is_job       boolean,  -- becomes a job of the other servers (jobs.sql), if it does
    is_permanent boolean,
    is_temporary boolean,
    captured     bigint,   -- psp.captured_rows() before the statement
    has_ended    boolean,  -- and waits to become a row of psp.schema_history
    statements   text,     -- what the daemon has told of the message
    text         text,     -- its own, where it stands in a DO block or a function, or the server module tells it
    reads_same   boolean,  -- under these settings the text means what runs (psp.reads_the_same)
    indexes      text[],   -- the name of the one that CREATE INDEX has made; those that DROP INDEX has dropped; both names of the one of a
                           -- job to which ALTER INDEX has given another; what CREATE TABLE or SCHEMA has copied (psp.copied_indexes)
    settings     jsonb,    -- before the statement (statement_settings.sql), and its role
    role         name,
    written      jsonb     -- psp.written_rows() before the statement, if psp.prepare_tables has been called
);

-- That of this message.
CREATE FUNCTION psp.running_ddl() RETURNS psp.running_ddl
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    running CONSTANT psp.running_ddl := nullif(current_setting('psp.running_ddl', true), '')::psp.running_ddl;
BEGIN
    IF running.message_at = extract(epoch FROM statement_timestamp()) THEN
        RETURN running;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION psp.note_running_ddl(running psp.running_ddl) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('psp.running_ddl', running::text, false);
END $$;

CREATE FUNCTION psp.refuse_plain_ddl(
    what text, detail text,
    hint text DEFAULT 'SELECT psp.ddl($$…$$) runs the text of a statement at all semi-primaries. SET psp.schema_changes = local lets '
                      'statements that change no captured table stay here.'
) RETURNS void
LANGUAGE plpgsql AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'psp: ' || what, DETAIL = detail, HINT = hint;
END $function$;

-- ---- what goes with the stream ---------------------------------------------------------------------------------------------------

-- The role of a statement that stands in no function. (Not current_user: this is called in functions of others.)
CREATE FUNCTION psp.role_of_statement() RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

CREATE FUNCTION psp.goes_with_stream() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role CONSTANT name := psp.role_of_statement();
BEGIN
    RETURN current_setting('psp.schema_changes', true) IS DISTINCT FROM 'local'
           AND has_function_privilege(role, 'psp.ddl(text)', 'EXECUTE') AND psp.may_change_schema(role);
END $$;

-- What PostgreSQL runs in no transaction. (psp.on_ddl_start has let it pass.)
CREATE FUNCTION psp.stays_here(tag text, message text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tag IN ('CREATE INDEX', 'DROP INDEX', 'ALTER TABLE') AND psp.may_be_concurrent(tag, message);
END $$;

CREATE FUNCTION psp.makes_temporary(message text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT position(';' IN message) = 0 AND message ~* '^\s*create\s+((local|global)\s+)?temp'
$$;

CREATE FUNCTION psp.is_unique_index_concurrently(message text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN message ~* 'concurrently' AND psp.bare_statement(message) ~* '^create\s+unique\s+index\s+concurrently\M';
END $$;

CREATE FUNCTION psp.has_captured_rows() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.captured w WHERE w.xid = pg_current_xact_id_if_assigned() AND w.table_id <> @SCHEMA_HISTORY_ID@);
END $$;

-- Whether psp's triggers could be in a statement's way (psp.prepare_tables).
CREATE FUNCTION psp.needs_preparation(tag text, message text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT tag OPERATOR(pg_catalog.=) 'ALTER TABLE' OR tag OPERATOR(pg_catalog.=) 'ALTER TYPE'
           OR tag OPERATOR(pg_catalog.=) 'CREATE TABLE' AND message OPERATOR(pg_catalog.~*) 'partition'
$$;

-- What means something in this session, and nothing at another server.
CREATE FUNCTION psp.check_plain_statement(tag text, statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    named CONSTANT text := psp.temporary_name_in(statement);
BEGIN
    IF tag IN ('CREATE TABLE AS', 'SELECT INTO') AND (statement ~ '\$[0-9]' OR statement ~* '\mexecute\M') THEN
        PERFORM psp.refuse_plain_ddl('the statement has parameters, or is a prepared one', 'Other servers do not know them.');
    ELSIF named IS NOT NULL THEN
        PERFORM psp.refuse_plain_ddl(format('the statement names %I, which is temporary', named), 'Other servers do not have it.');
    END IF;
END $$;

-- The text of the statement that has ended and waits to become a row, and how much was captured before it. of_jobs: indexes that jobs
-- make, and that other servers need not have yet: those that it has dropped, or the name that one had and its new one, or what it has copied.
CREATE FUNCTION psp.statement_that_ended(OUT text text, OUT captured bigint, OUT is_job boolean, OUT of_jobs jsonb, OUT settings jsonb)
RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    running CONSTANT psp.running_ddl := psp.running_ddl();
BEGIN
    is_job := running.is_job;
    IF running.has_ended AND (is_job OR psp.is_schema_change()) THEN
        text := psp.text_of_ddl(running);
        captured := running.captured;
        settings := running.settings;
        PERFORM psp.check_plain_statement(running.tag, text), psp.check_reads_same(running);
        IF running.role <> psp.role_of_statement() THEN
            PERFORM psp.refuse_plain_ddl('a statement that changes the session''s role is not supported',
                                         format('It began as %I, and ended as %I.', running.role, psp.role_of_statement()),
                                         'SET ROLE by a statement of its own, before it.');
        END IF;
        IF is_job THEN
            IF NOT psp.can_be_job(text) THEN
                text := psp.with_name_of_index(text, running.indexes[1]);
            END IF;
            PERFORM psp.check_job(text);
        ELSIF running.tag IN ('CREATE TABLE', 'CREATE SCHEMA') THEN
            of_jobs := CASE WHEN running.indexes[1] IS NOT NULL THEN jsonb_build_object('copied', running.indexes[1]::jsonb) END;
        ELSIF running.tag = 'CREATE INDEX' THEN
            text := psp.with_chosen_name(text, running.indexes[1]);
        ELSIF running.indexes IS NOT NULL AND running.tag = 'DROP INDEX' THEN
            of_jobs := jsonb_build_object('dropped', running.indexes);
            text := psp.drop_if_there(text, running.indexes);
        ELSIF running.indexes IS NOT NULL THEN
            of_jobs := jsonb_build_object('renamed', running.indexes);
            text := format('ALTER INDEX IF EXISTS %s RENAME TO %s', running.indexes[1], running.indexes[2]);
        END IF;
    ELSE
        PERFORM psp.refuse_statement('needs a text', 'Give it the statement.');
    END IF;
END $$;

-- ---- from its beginning to its end -----------------------------------------------------------------------------------------------

CREATE FUNCTION psp.on_statement_start() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    message text := coalesce(current_query(), '');
    running psp.running_ddl;
    context text;
    code    text;
    text    text;
    path    jsonb;
    alone   boolean;  -- it concerns what this server has alone
    is_temporary boolean;
BEGIN
    IF psp.makes_temporary(message) OR psp.is_own_command() THEN
        RETURN;  -- so that these cost no more
    ELSIF tg_tag = 'REINDEX' THEN
        RETURN;  -- it changes no schema, and fires nothing before PostgreSQL 17
    ELSIF tg_tag = 'IMPORT FOREIGN SCHEMA' AND (psp.goes_with_stream() OR psp.is_schema_change()) THEN
        PERFORM psp.refuse_plain_ddl('IMPORT FOREIGN SCHEMA does not go with the stream',
                                     'Each semi-primary, and each one that joins later, would ask the foreign server for its tables of that time.',
                                     'CREATE FOREIGN TABLE goes with the stream. Or SET psp.schema_changes = local, and import at each semi-primary.');
    END IF;
    running := psp.running_ddl();
    IF running.depth > 0 THEN
        running.depth := running.depth + 1;
        PERFORM psp.note_running_ddl(running);
        RETURN;
    END IF;
    GET DIAGNOSTICS context = PG_CONTEXT;
    IF position(E'\n' IN context) > 0 THEN
        code := psp.text_in_code(tg_tag, context);
        IF code IS NULL OR psp.makes_temporary(code) OR psp.is_schema_change() THEN
            RETURN;
        END IF;
        message := code;
    ELSIF (psp.may_have_several(message) OR tg_tag = 'SELECT INTO') AND psp.uses_module() THEN
        code := psp.text_of_message();
        message := coalesce(code, message);
    END IF;
    running.goes := psp.goes_with_stream();
    path := psp.path_of_schemas(psp.noted_settings());
    alone := running.goes AND psp.stays_here(tg_tag, message)
             AND (psp.drops_index_alone(tg_tag, message, psp.role_of_statement(), path) OR psp.makes_index_alone(tg_tag, message, psp.role_of_statement(), path));
    IF running.goes AND NOT alone AND psp.is_unique_index_concurrently(message) AND psp.temporary_name_in(message) IS NULL
       AND NOT psp.finds_its_index(psp.bare_statement(message)) THEN
        PERFORM psp.refuse_concurrently('this index', 'CREATE UNIQUE INDEX CONCURRENTLY', 'Each server would check only the rows that it has.', NULL);
    END IF;
    running.is_job := running.goes AND NOT alone AND psp.becomes_job(tg_tag, message);
    IF running.is_job AND psp.temporary_name_in(message) IS NULL THEN
        PERFORM psp.refuse_reassigned(psp.role_of_statement(), true), psp.check_name_for_job(message, psp.role_of_statement(), path);
    END IF;
    running.goes := running.goes AND NOT psp.stays_here(tg_tag, message);
    IF NOT running.goes AND NOT running.is_job AND (code IS NOT NULL OR NOT psp.may_have_several(message)) THEN
        RETURN;
    END IF;
    PERFORM psp.wait_for_arriving_change() WHERE running.goes;
    -- What stands in a block or a function is none of the statements of the message. Those that the module tells need not be counted.
    running := (extract(epoch FROM statement_timestamp()), coalesce(running.n, 0) + (code IS NULL)::integer, 0, tg_tag, running.goes,
                running.is_job, false, false, 0, false, running.statements, code, NOT psp.uses_module(), NULL, psp.noted_settings(),
                psp.role_of_statement(), NULL);
    IF running.goes OR running.is_job THEN
        text := psp.text_if_known(running);
        running.statements := (psp.running_ddl()).statements;
        is_temporary := text IS NULL OR psp.temporary_name_in(text) IS NOT NULL OR psp.makes_temporary(text);
    END IF;
    IF NOT is_temporary THEN  -- otherwise it changes nothing permanent, or is refused
        PERFORM psp.refuse_in_trigger(tg_tag) WHERE tg_tag = 'REFRESH MATERIALIZED VIEW' AND pg_trigger_depth() > 0;
        running.reads_same := psp.reads_the_same(text, running.settings);
        running.settings := running.settings || '{"custom": {}}' || psp.custom_settings(text);
        IF NOT running.goes THEN
            NULL;
        ELSIF NOT psp.may_hold(tg_tag) THEN
            PERFORM psp.hold_tables('', psp.role_of_statement());
        ELSE
            IF tg_tag IN ('ALTER INDEX', 'DROP INDEX') THEN
                PERFORM psp.check_jobs_have_run(text, psp.role_of_statement(), path);
            END IF;
            PERFORM psp.hold_tables(text, psp.role_of_statement()), psp.note_partitions_to_drop(text, psp.role_of_statement(), path);
        END IF;
    END IF;
    IF running.goes AND (psp.needs_preparation(tg_tag, message) OR psp.has_captured_rows()) THEN
        text := CASE WHEN tg_tag = 'SELECT INTO' THEN ''  -- it changes nothing that is there
                     WHEN code IS NULL THEN psp.text_of_ddl(running)
                     ELSE psp.text_if_known(running) END;  -- null: of several, which make temporary objects, or are refused at their end
        running.statements := (psp.running_ddl()).statements;
        -- What names a temporary object changes nothing permanent, or is refused.
        IF text IS NOT NULL AND psp.temporary_name_in(text) IS NULL THEN
            running.written := psp.written_rows();
            PERFORM psp.capture_old_keys(text, psp.role_of_statement()), psp.end_segment(), psp.prepare_tables(text, psp.role_of_statement());
            running.captured := psp.captured_rows();
        END IF;
    END IF;
    IF running.goes THEN
        PERFORM psp.set_local_indexes_aside(message, true), psp.note_strangers(), psp.note_reassigned(),
                psp.begin_own_commands(message);
    END IF;
    running.depth := 1;
    PERFORM psp.note_running_ddl(running);
END $$;

-- Nobody should take a statement that stays here for one that goes with the stream.
CREATE FUNCTION psp.tell_local(tag text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('psp.schema_changes', true) IS DISTINCT FROM 'local' THEN
        RAISE NOTICE USING MESSAGE = format('psp: this %s stays at this semi-primary', tag),
                           HINT = 'Statements of roles that may call psp.ddl run at all semi-primaries.';
    END IF;
END $$;

-- Notes what a statement, or one inside it, has done.
CREATE FUNCTION psp.note_objects(tag text, context text, permanent boolean, temporary boolean) RETURNS psp.running_ddl
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    running psp.running_ddl := psp.running_ddl();
BEGIN
    IF permanent AND psp.is_schema_change() AND running.depth IS DISTINCT FROM 1 AND psp.is_in_function(context) THEN
        PERFORM psp.refuse_plain_ddl(format('%s in a function that another statement calls is not supported', tag),
                                     'At a server that joins, or has other rows, the function could do something else.',
                                     'Call the function by a statement of its own: each one that it runs goes with the stream.');
    ELSIF running.depth > 0 THEN
        running.is_permanent := running.is_permanent OR permanent;
        running.is_temporary := running.is_temporary OR temporary;
        RETURN running;
    ELSIF NOT permanent OR psp.is_own_command() OR psp.is_schema_change() THEN
        RETURN NULL;
    ELSIF position(E'\n' IN context) > 0 AND psp.goes_with_stream() THEN
        PERFORM psp.refuse_plain_ddl(format('the text of this %s is not known', tag),
                                     'Of functions and DO blocks in PL/pgSQL it is; CREATE TABLE AS there needs EXECUTE.');
    END IF;
    PERFORM psp.tell_local(tag);
    RETURN NULL;
END $$;

-- What PostgreSQL's command DROP has dropped. Other commands tell their objects when they end.
CREATE FUNCTION psp.on_statement_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    running psp.running_ddl;
    dropped record;
    context text;
BEGIN
    IF tg_tag LIKE 'DROP %' THEN
        GET DIAGNOSTICS context = PG_CONTEXT;
        SELECT coalesce(bool_or(o.temporary), false) AS temporary, coalesce(bool_or(NOT o.temporary), false) AS permanent INTO dropped
          FROM (SELECT d.is_temporary OR coalesce(d.address_names[1] LIKE 'pg\_temp%', false) AS temporary
                  FROM pg_event_trigger_dropped_objects() d WHERE d.original) o;
        running := psp.note_objects(tg_tag, context, dropped.permanent, dropped.temporary);
        IF running.depth > 0 THEN
            IF tg_tag = 'DROP INDEX' AND running.goes THEN
                SELECT array_agg(d.object_identity ORDER BY d.object_identity) INTO running.indexes
                  FROM pg_event_trigger_dropped_objects() d WHERE d.original;
            END IF;
            PERFORM psp.note_running_ddl(running);
        END IF;
    END IF;
END $$;

CREATE FUNCTION psp.on_statement_end() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    running psp.running_ddl;
    changed record;
    context text;
BEGIN
    IF tg_tag = 'REINDEX' OR psp.is_own_command() THEN
        RETURN;
    END IF;
    GET DIAGNOSTICS context = PG_CONTEXT;
    PERFORM psp.check_names(tg_tag, context);
    SELECT coalesce(bool_or(o.temporary), false) AS temporary, coalesce(bool_or(NOT o.temporary), tg_tag = 'DROP OWNED') AS permanent,
           array_agg(o.name) AS names, array_agg(o.objid) AS objects, coalesce(bool_or(o.large), false) AS large INTO changed
      FROM (SELECT c.objid,
                   CASE c.schema_name WHEN 'pg_temp' THEN true ELSE psp.is_of_temporary_table(c.classid, c.objid) END AS temporary,
                   (SELECT quote_ident(r.relname) FROM pg_class r WHERE r.oid = c.objid) AS name,
                   lower(c.object_type) = 'large object' AS large
              FROM pg_event_trigger_ddl_commands() c WHERE NOT c.in_extension) o;
    running := psp.running_ddl();
    IF tg_tag IN ('GRANT', 'REVOKE') AND running.goes AND running.depth = 1 AND pg_my_temp_schema() <> 0
       AND psp.is_grant_on_temporary(psp.text_if_known(running)) THEN
        changed.permanent := false;
    END IF;
    running := psp.note_objects(tg_tag, context, changed.permanent, changed.temporary);
    IF running.depth > 0 THEN
        running.depth := running.depth - 1;
        IF running.goes AND changed.large THEN  -- no part of a schema
            PERFORM psp.end_own_commands(), psp.forget_strangers(), psp.bring_local_indexes_back();
            running.goes := false;
        END IF;
        IF running.tag = 'CREATE INDEX' THEN
            running.indexes := changed.names;
        ELSIF running.tag IN ('CREATE TABLE', 'CREATE SCHEMA') AND running.goes AND running.is_permanent AND running.depth = 0 THEN
            running.indexes := psp.note_copies(coalesce(running.text, current_query()), changed.objects);
        ELSIF running.tag = 'ALTER INDEX' THEN
            running.indexes := psp.renamed_index_of_job(changed.objects[1]);
        END IF;
        running.has_ended := running.depth = 0 AND (running.goes OR running.is_job) AND running.is_permanent;
        PERFORM psp.note_running_ddl(running);
    END IF;
    IF running.depth = 0 AND running.is_permanent AND NOT running.goes AND NOT running.is_job THEN
        PERFORM psp.tell_local(running.tag);
    ELSIF running.depth = 0 AND running.goes AND NOT running.is_permanent THEN
        PERFORM psp.end_own_commands(), psp.bring_local_indexes_back();
        IF psp.needs_preparation(running.tag, coalesce(running.text, current_query())) THEN
            PERFORM psp.take_back_grants(), psp.follow_tables(i.catalog_version, false), psp.capture_tables(), psp.keep_noted_owners()
               FROM psp.identity i;
        END IF;
        PERFORM psp.forget_strangers();
    ELSIF running.has_ended AND running.is_temporary THEN
        PERFORM psp.refuse_plain_ddl('the statement changes both temporary and permanent objects', 'Only the latter go with the stream.');
    END IF;
END $$;

CREATE FUNCTION psp.statement_has_ended() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((psp.running_ddl()).has_ended, false)
$$;

-- It has become a row of psp.schema_history, and must not run again.
CREATE FUNCTION psp.take_ended_statement() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    running psp.running_ddl := psp.running_ddl();
BEGIN
    IF running.has_ended THEN
        running.has_ended := false;
        PERFORM psp.note_running_ddl(running);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- Like psp.ddl: with the rights and settings of its caller, so that these become the statement's.
CREATE FUNCTION psp.record_statement() RETURNS event_trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF psp.statement_has_ended() THEN
        INSERT INTO psp.new_statement (settings) VALUES (psp.statement_settings());  -- those before it take their places
    END IF;
END $$;
