-- Schema changes that go with the stream: psp.ddl runs a statement here, and at every other semi-primary at the place that its
-- transaction has in the stream. docs/schema-changes.md, docs/decisions/31.
--
-- A statement is a row of psp.schema_history, and a row that arrives is a statement that runs, here and elsewhere by the same
-- trigger. The table is captured like the application's tables: its rows are certified, made durable and copied to a semi-primary
-- that joins. All changes take numbers from one row of numbers, so that of two changes that do not know of each other one loses.
CREATE TABLE psp.schema_history (
    change      integer NOT NULL,     -- the transaction's: 1, 2, … in the cluster
    statement_n integer NOT NULL,     -- in the transaction: 1, 2, …
    executed_at timestamptz NOT NULL, -- at the semi-primary where it ran first
    sp_name     text NOT NULL,
    role        text NOT NULL,        -- as which it runs
    settings    jsonb NOT NULL,       -- what its meaning depends on (psp.statement_settings); `left`: what it has left (tables_left.sql)
    statement   text NOT NULL,
    PRIMARY KEY (change, statement_n)
);

-- Where psp.ddl hands over a statement. Nobody may give `role`, so its default is true: the role as which psp.ddl was called.
CREATE VIEW psp.new_statement AS
SELECT NULL::name AS role, NULL::jsonb AS settings, NULL::text AS statement WHERE false;
ALTER VIEW psp.new_statement ALTER COLUMN role SET DEFAULT current_user;

-- The objects that this session has and no other session sees.
CREATE FUNCTION psp.temporary_objects() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%s %s', d.classid, d.objid), ', ' ORDER BY d.classid, d.objid) FROM pg_depend d
     WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = pg_my_temp_schema()
$$;

-- Raises why a text cannot be a schema change.
CREATE FUNCTION psp.refuse_statement(what text, hint text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'psp: psp.ddl ' || what, HINT = hint;
END $$;

-- How many pieces of captured rows this transaction has.
CREATE FUNCTION psp.captured_rows() RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FROM psp.captured w
     WHERE w.xid = pg_current_xact_id() AND w.table_id <> @SCHEMA_HISTORY_ID@ AND w.op NOT IN ('c', 'e')
$$;

-- How many statements of this transaction go with the stream.
CREATE FUNCTION psp.statements_of_transaction() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FROM psp.captured w
     WHERE w.xid = pg_current_xact_id_if_assigned() AND w.table_id = @SCHEMA_HISTORY_ID@ AND w.op <> 'l'
$$;

-- Whether psp.check_key_has_come hands over this statement.
CREATE FUNCTION psp.is_key_to_add(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.tables_without_key t
                    WHERE t.xid = pg_current_xact_id() AND psp.key_to_add(t.relation) = is_key_to_add.statement);
END $$;

-- A statement that psp.ddl hands over: gives it its number, and inserts it. The triggers run and capture it. The lock lets one schema
-- change after the other run at this semi-primary; one of another semi-primary is met at COMMIT, or here if the snapshot lacks it.
CREATE FUNCTION psp.write_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    plain    CONSTANT boolean := NEW.statement IS NULL;  -- it has run without psp.ddl (plain_ddl.sql)
    emptied  CONSTANT boolean := plain AND psp.truncation_waits();  -- it is a TRUNCATE (truncate.sql)
    captured bigint;  -- before the statement
    is_job   boolean := NOT plain AND NEW.settings ? 'job';  -- jobs.sql
    of_jobs  jsonb;  -- indexes of jobs that it drops, renames or copies
    dropped  text[];
    row      psp.schema_history;
BEGIN
    IF pg_trigger_depth() > 1 + emptied::integer AND NOT psp.is_key_to_add(NEW.statement) THEN
        PERFORM psp.refuse_in_trigger(CASE WHEN plain THEN (psp.running_ddl()).tag END);
    ELSIF NOT has_function_privilege(NEW.role, 'psp.ddl(text)', 'EXECUTE') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'psp: permission denied for function psp.ddl';
    ELSIF plain AND NEW.role <> psp.role_of_statement() THEN  -- everybody who calls such a function may forge psp.running_ddl
        PERFORM psp.refuse_plain_ddl('a statement of a function that runs as another role is not supported',
                                     format('The function runs as %I.', NEW.role),
                                     format('SET ROLE %I, and call the function. Or make it SECURITY INVOKER.', NEW.role));
    ELSIF NEW.settings IS NULL OR EXISTS (SELECT FROM psp.names_of_settings() s(name) WHERE NEW.settings ->> s.name IS NULL) THEN
        PERFORM psp.refuse_statement('needs all settings', 'Call psp.ddl.');
    ELSIF NEW.settings ? 'reassigned' AND NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = NEW.role) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'psp: psp.reassign_owned is for superusers';
    ELSIF NOT plain AND psp.is_schema_change() THEN
        PERFORM psp.refuse_statement('cannot be called by another schema change', 'Call it in a statement of its own.');
    END IF;
    PERFORM psp.wait_for_arriving_change();
    LOCK TABLE psp.schema_history IN SHARE UPDATE EXCLUSIVE MODE;
    IF emptied THEN
        PERFORM psp.check_truncation(), psp.end_segment();
        NEW.statement := psp.text_of_truncation();
        captured := psp.captured_rows();
    ELSIF plain THEN
        SELECT e.text, e.captured, e.is_job, e.of_jobs, psp.settings_before(NEW.settings, e.settings)
          INTO NEW.statement, captured, is_job, of_jobs, NEW.settings FROM psp.statement_that_ended() e;
    ELSIF is_job THEN
        PERFORM psp.check_job(NEW.statement), psp.hold_tables('', NEW.role);
        captured := psp.captured_rows();
    ELSE
        NEW.statement := psp.without_concurrently(NEW.statement);
        dropped := psp.indexes_to_drop(NEW.statement, NEW.role, NEW.settings);
        IF psp.words_of(NEW.statement) @> '{index}' AND psp.words_of(NEW.statement) && '{drop,alter}' THEN
            PERFORM psp.check_jobs_have_run(NEW.statement, NEW.role, NEW.settings);
        END IF;
        IF dropped IS NOT NULL THEN
            NEW.statement := psp.drop_if_there(NEW.statement, dropped);
            of_jobs := jsonb_build_object('dropped', dropped);
        END IF;
        PERFORM psp.check_no_copies(NEW.statement), psp.hold_tables(NEW.statement, NEW.role);
        PERFORM psp.capture_old_keys(NEW.statement, NEW.role), psp.note_partitions_to_drop(NEW.statement, NEW.role, NEW.settings), psp.end_segment();
        captured := psp.captured_rows();
    END IF;
    row.statement_n := psp.statements_of_transaction() + 1;
    SELECT coalesce(max(h.change), 0) + CASE row.statement_n WHEN 1 THEN 1 ELSE 0 END INTO row.change FROM psp.schema_history h;
    SELECT clock_timestamp(), i.name, coalesce(NEW.settings -> 'reassigned' ->> 1, NEW.role),
           NEW.settings - '{job,dropped,renamed,copied,custom}'::text[]
           || CASE WHEN NOT plain OR emptied THEN psp.custom_settings(NEW.statement) WHEN NEW.settings -> 'custom' <> '{}' THEN jsonb_build_object('custom', NEW.settings -> 'custom') ELSE '{}' END
           || CASE WHEN is_job THEN '{"job": true}' ELSE '{}' END::jsonb || coalesce(of_jobs, '{}'),
           NEW.statement
      INTO row.executed_at, row.sp_name, row.role, row.settings, row.statement FROM psp.identity i;
    INSERT INTO psp.schema_history VALUES (row.*) ON CONFLICT (change, statement_n) DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'serialization_failure',
            MESSAGE = 'psp: another schema change has arrived meanwhile',
            HINT = 'Retry the transaction.';
    END IF;
    UPDATE psp.schema_history h SET settings = h.settings || jsonb_build_object('left', psp.tables_left(psp.changed_by_statement()))
     WHERE (h.change, h.statement_n) = (row.change, row.statement_n);  -- captured now (psp.captures)
    IF captured <> psp.captured_rows() THEN
        PERFORM psp.refuse_statement('cannot write rows of captured tables',
                                     'Write them by statements of their own, in the same transaction.');
    END IF;
    PERFORM psp.capture_tables();
    RETURN NULL;
END $$;

-- The default of `role` is what counts: who may write every table could give another one. Not SECURITY DEFINER, so current_user is the
-- role that inserts: the owner of psp, a superuser, may tell the session's. (Triggers run in the order of their names.)
CREATE FUNCTION psp.check_statement_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.role IS DISTINCT FROM current_user
       AND NOT (NEW.role = psp.role_of_statement()
                AND (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.nspname = 'psp') = current_user) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'psp: a statement runs as the role that gives it';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER psp_check_statement_role INSTEAD OF INSERT ON psp.new_statement
    FOR EACH ROW EXECUTE FUNCTION psp.check_statement_role();
CREATE TRIGGER psp_write_statement INSTEAD OF INSERT ON psp.new_statement
    FOR EACH ROW EXECUTE FUNCTION psp.write_statement();

-- Runs a statement here and at every other semi-primary. It has the rights and the settings of its caller: no SET clause, and
-- not SECURITY DEFINER. What a query runs goes by itself (plain_ddl.sql), since elsewhere the query may find other rows, or none; so does a
-- statement that copies indexes. If nothing goes by itself, it is undone, and the text goes.
CREATE FUNCTION psp.ddl(statement text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    before pg_catalog.int8;
BEGIN
    IF pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: psp.ddl does nothing with session_replication_role = replica',
            HINT = 'SET session_replication_role = origin.';
    ELSIF psp.runs_as_it_is(ddl.statement, current_user) THEN
        BEGIN
            before := psp.statements_of_transaction();
            EXECUTE ddl.statement;
            IF psp.statements_of_transaction() OPERATOR(pg_catalog.=) before THEN
                RAISE SQLSTATE 'PSP00';
            END IF;
            RETURN;
        EXCEPTION WHEN SQLSTATE 'PSP00' THEN
            NULL;
        END;
    END IF;
    INSERT INTO psp.new_statement (settings, statement) VALUES (psp.statement_settings(), ddl.statement);
END $$;

-- A copy that begins again brings statements which have run here. Their rows are kept here until then. psp schema join --schema-from fills it with
-- those that the restored schema has (docs/decisions/73).
CREATE TABLE psp.statements_of_older_copy (LIKE psp.schema_history, PRIMARY KEY (change, statement_n));

CREATE FUNCTION psp.keep_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.statements_of_older_copy VALUES (OLD.*);
    RETURN OLD;
END $$;

CREATE TRIGGER psp_keep_statement BEFORE DELETE ON psp.schema_history FOR EACH ROW EXECUTE FUNCTION psp.keep_statement();

-- Raises if the older copy had a statement that the newer one does not have, or has otherwise: the primary has lost it meanwhile
-- (a backup was restored), but it has run here.
CREATE FUNCTION psp.refuse_lost_statements(lost psp.statements_of_older_copy) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF lost.change IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = format('psp: schema change %s has run here, and the primary has lost it', lost.change),
            DETAIL = lost.statement,
            HINT = 'Release this semi-primary, and join with an empty database.';
    END IF;
END $$;

CREATE FUNCTION psp.on_joined() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.refuse_lost_statements(o) FROM psp.statements_of_older_copy o;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_on_joined AFTER UPDATE OF joining ON psp.identity
    FOR EACH ROW WHEN (OLD.joining AND NOT NEW.joining) EXECUTE FUNCTION psp.on_joined();
ALTER TABLE psp.identity ENABLE ALWAYS TRIGGER psp_on_joined;

-- Statements come from psp.ddl and from the stream only, by functions of psp_functions, and stay as they are: roles with
-- pg_write_all_data, and the daemon's, may write any table. Not SECURITY DEFINER, so current_user is the role that writes.
CREATE FUNCTION psp.check_statement_writer() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_user <> 'psp_functions' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'insufficient_privilege',
            MESSAGE = format('psp: only psp''s own functions write psp.%s', TG_TABLE_NAME);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_check_statement_writer BEFORE INSERT OR UPDATE OR DELETE ON psp.schema_history
    FOR EACH STATEMENT EXECUTE FUNCTION psp.check_statement_writer();

-- Whether statements may run as this role: it is no superuser, and no member of a role by which it could become one. A role that
-- can forge rows of the stream could otherwise do that.
CREATE FUNCTION psp.may_change_schema(name text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT EXISTS (SELECT FROM pg_roles s
                        WHERE pg_has_role(r.oid, s.oid, 'MEMBER')
                          AND (s.rolsuper OR s.rolcreaterole OR s.rolreplication
                               OR s.rolname IN ('pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files',
                                                'psp_functions', 'psp_semi_primary', 'psp_primary')))
      FROM pg_roles r WHERE r.rolname = name
$$;

-- Neither here nor where it arrives: without event triggers nobody knows what a statement changes.
CREATE FUNCTION psp.check_is_guarded() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (SELECT i.guarded FROM psp.identity i) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: this semi-primary takes part in no schema change and no TRUNCATE',
            DETAIL = 'The role that adopted it, or let it join, is no superuser: there are no event triggers, which tell psp what a statement changes.',
            HINT = 'Release it, and let it join as a superuser; or release the whole cluster, change the schema, and adopt it again.';
    END IF;
END $$;

CREATE FUNCTION psp.check_role_of_statement(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = name) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'undefined_object',
            MESSAGE = format('psp: role %I does not exist at this semi-primary', name),
            DETAIL = 'A schema change runs as this role. Roles do not go with the stream.',
            HINT = format('CREATE ROLE %I, with the rights that it has at the other semi-primaries. Then the schema change is tried again.', name);
    ELSIF NOT psp.may_change_schema(name) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: psp.ddl runs no statement as %I', name),
            DETAIL = 'At the other servers, who can forge rows of the stream would have the rights of this role: it is a superuser, has '
                     'CREATEROLE or REPLICATION, or may use the server''s files or programs.',
            HINT = 'SET ROLE to the role that owns the schema. What only a superuser can do is done at each server.';
    END IF;
END $$;

-- What a statement may have left in the worker's session. (psp.reset_apply_session does the rest.)
CREATE FUNCTION psp.forget_statement_in_worker() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.apply_session SET pid = pg_backend_pid();
    EXECUTE 'UNLISTEN *';
    EXECUTE 'DEALLOCATE ALL';
    PERFORM pg_advisory_unlock_all();
END $$;

-- After a row's statement. `here`: it runs here first.
CREATE FUNCTION psp.follow_statement(done psp.schema_history, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.follow_changes(done.change + 1, here);
    IF NOT here THEN
        PERFORM psp.check_tables_left(done.settings -> 'left');
    END IF;
END $$;

-- Runs a row's statement, here and where it arrives. A function of its role does that, so that nothing inside can come back to
-- the rights of this one, which is a superuser's. It is made under a name that nobody can foresee. Once the statement's settings hold,
-- each name has its schema.
CREATE FUNCTION psp.run_statement() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET datestyle FROM CURRENT SET intervalstyle FROM CURRENT
SET timezone FROM CURRENT SET standard_conforming_strings = on SET check_function_bodies = on SET xmloption FROM CURRENT
SET array_nulls = on SET default_toast_compression FROM CURRENT SET row_security FROM CURRENT SET transform_null_equals = off
SET lc_monetary FROM CURRENT SET lc_numeric FROM CURRENT SET lc_time FROM CURRENT SET bytea_output FROM CURRENT
SET extra_float_digits FROM CURRENT SET default_text_search_config FROM CURRENT SET timezone_abbreviations FROM CURRENT SET xmlbinary FROM CURRENT
SET backslash_quote FROM CURRENT SET quote_all_identifiers = off AS $$
DECLARE
    older   psp.statements_of_older_copy;
    runner  CONSTANT text := format('pg_temp.%I', 'psp_' || gen_random_uuid());
    call    CONSTANT text := format('SELECT %s($1)', runner);
    removal CONSTANT text := format('DROP FUNCTION %s(text)', runner);
    setting record;
    temporary CONSTANT text := psp.temporary_objects();
    here      CONSTANT boolean := current_setting('session_replication_role') <> 'replica';  -- it runs here first
    -- Read before the statement's own search_path holds, in which operators of others may stand before PostgreSQL's.
    zone    CONSTANT text := NEW.settings ->> 'timezone';
    dropped CONSTANT jsonb := NEW.settings -> 'dropped';
    renamed CONSTANT jsonb := NEW.settings -> 'renamed';
    copied  CONSTANT jsonb := NEW.settings -> 'copied';
    written CONSTANT jsonb := CASE WHEN here THEN psp.written_rows() END;
    emptied boolean;
    has_run boolean;
BEGIN
    IF NOT here THEN
        LOCK TABLE psp.apply_session IN EXCLUSIVE MODE;  -- psp.wait_for_arriving_change
    END IF;
    DELETE FROM psp.statements_of_older_copy o WHERE (o.change, o.statement_n) = (NEW.change, NEW.statement_n) RETURNING o.* INTO older;
    IF FOUND THEN
        IF ROW(older.*) IS DISTINCT FROM ROW(NEW.*) THEN
            PERFORM psp.refuse_lost_statements(older);
        ELSIF NOT (SELECT i.joining FROM psp.identity i) THEN  -- an administrator has let it count as run
            PERFORM psp.follow_statement(NEW, false);
        END IF;
        RETURN NULL;
    END IF;
    PERFORM psp.check_is_guarded();
    -- A job whose role is missing fails alone.
    PERFORM psp.check_role_of_statement(NEW.role) WHERE NOT NEW.settings ? 'job' OR to_regrole(quote_ident(NEW.role)) IS NOT NULL;
    emptied := here AND psp.truncation_waits();
    has_run := emptied OR here AND psp.take_ended_statement();
    IF emptied OR NOT has_run OR NEW.settings ? 'job' THEN  -- before others that have run here psp.on_statement_start has done that
        PERFORM psp.note_strangers(), psp.note_reassigned();
    END IF;
    IF NEW.settings ? 'reassigned' THEN
        PERFORM psp.run_reassignment(NEW.settings -> 'reassigned', here), psp.follow_statement(NEW, here);
        RETURN NULL;
    ELSIF NEW.settings ? 'job' THEN
        PERFORM psp.refuse_strangers(NEW.statement), psp.refuse_reassigned(NEW.role) WHERE here AND NOT has_run;
        PERFORM psp.set_local_indexes_aside(NEW.statement) WHERE NOT has_run;
        PERFORM psp.note_job(NEW, has_run), psp.follow_statement(NEW, here);
        RETURN NULL;
    ELSIF has_run THEN
        PERFORM psp.check_written_rows((psp.running_ddl()).written), psp.check_meaning(NEW.statement, zone) WHERE NOT emptied;
        PERFORM psp.refuse_strangers(NEW.statement), psp.refuse_reassigned(NEW.role), psp.rename_index_of_job(renamed), psp.check_names_of_jobs(),
                psp.keep_local_indexes_apart(NEW.statement), psp.end_own_commands(), psp.forget_dropped_indexes(dropped), psp.follow_statement(NEW, true);
        RETURN NULL;
    END IF;
    PERFORM psp.begin_own_commands();
    EXECUTE format('CREATE FUNCTION %s(statement text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $f$BEGIN EXECUTE $1; END$f$', runner);
    EXECUTE format('REVOKE ALL ON FUNCTION %s(text) FROM PUBLIC', runner);  -- the statement may call code of others
    EXECUTE format('ALTER FUNCTION %s(text) OWNER TO %I', runner, NEW.role);
    PERFORM psp.end_own_commands();
    IF NOT here THEN
        PERFORM set_config('lc_messages', 'C', true);  -- psp.remove_obstacle reads errors
    END IF;
    FOR setting IN SELECT s.name, s.value FROM psp.settings_to_take(NEW.settings, NEW.role, NEW.statement) s LOOP
        PERFORM pg_catalog.set_config(setting.name, setting.value, true);
    END LOOP;
    IF NOT here THEN
        PERFORM psp.rename_strangers(NEW.statement), psp.lend_reassigned(NEW.role);
    END IF;
    PERFORM psp.prepare_tables(NEW.statement, NEW.role), psp.prepare_types(NEW.statement);
    IF here THEN
        PERFORM psp.refuse_strangers(NEW.statement), psp.refuse_reassigned(NEW.role), psp.set_local_indexes_aside(NEW.statement),
                psp.note_indexes_to_drop(dropped);
    ELSE
        PERFORM psp.drop_leftovers(NEW.statement), psp.set_local_indexes_aside(NEW.statement),
                psp.end_jobs_of(dropped), psp.rename_index_of_job(renamed);
    END IF;
    PERFORM psp.begin_own_commands(NEW.statement);
    IF NOT here THEN  -- it does not pass for the apply worker, which writes captured tables in the replica role
        UPDATE psp.apply_session SET pid = 0;
    END IF;
    IF here THEN
        EXECUTE call USING NEW.statement;
        PERFORM psp.check_written_rows(written), psp.check_meaning(NEW.statement, zone), psp.check_no_copies(NEW.statement), psp.check_names_of_jobs(), psp.keep_local_indexes_apart(NEW.statement);
    ELSE
        PERFORM psp.take_custom_settings(call, NEW.settings),
                psp.run_past_obstacles(call, NEW.statement, NEW.role, NEW.settings),
                psp.take_copied_indexes(call, copied), psp.forget_statement_in_worker();
    END IF;
    PERFORM psp.end_own_commands();
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    EXECUTE removal;
    PERFORM psp.forget_dropped_indexes(dropped);
    IF psp.temporary_objects() IS DISTINCT FROM temporary THEN
        PERFORM psp.refuse_statement('cannot make or drop temporary objects', 'Run the statement without psp.ddl: it stays in this session.');
    END IF;
    PERFORM psp.return_reassigned();
    PERFORM psp.follow_statement(NEW, here);
    RETURN NULL;
END $$;

CREATE TRIGGER psp_run_statement AFTER INSERT ON psp.schema_history
    FOR EACH ROW EXECUTE FUNCTION psp.run_statement();
ALTER TABLE psp.schema_history ENABLE ALWAYS TRIGGER psp_check_statement_writer, ENABLE ALWAYS TRIGGER psp_keep_statement,
    ENABLE ALWAYS TRIGGER psp_run_statement;

-- Captured like the application's tables. The owner never logs in, and has no search_path of its own.
SELECT psp.give('{TABLE psp.schema_history}', 'psp_functions');
SELECT psp.install_capture(ARRAY[psp.define_table('psp.schema_history', @SCHEMA_HISTORY_ID@, '{}')
                                 || '{"search_path": "pg_catalog, pg_temp"}']);
