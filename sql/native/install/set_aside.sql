-- What this semi-primary has, and what refuses rows that another server has accepted, is set aside: the stream goes on, and psp.status tells.
-- The worker calls psp.set_aside before the rows, in their transaction, when nothing else has helped: what does not help is not kept.
-- docs/decisions/50.

CREATE FUNCTION psp.note_set_aside(class regclass, object oid, what text, definition text, problem text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.set_aside_objects VALUES (note_set_aside.class, note_set_aside.object, note_set_aside.what, note_set_aside.definition, note_set_aside.problem)
$$;

-- Rows were cancelled: they may only have been many. Nothing makes way but what CONTEXT shows at work.
CREATE FUNCTION psp.was_ended(problem text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT problem ~ '^(57014|57P01)'
$$;

-- Whether an error's CONTEXT names a function of users that an expression calls (pg_index, pg_constraint).
CREATE FUNCTION psp.names_function_of(problem text, expression text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET quote_all_identifiers = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM regexp_matches(expression, ':(?:op)?funcid (\d+)', 'g') m(found) JOIN pg_proc p ON p.oid = m.found[1]::oid
                    WHERE p.oid >= 16384
                      AND (position(format('function "%s"', p.proname) IN problem) > 0
                           -- With its end of a word before: f( is not in half_of(.
                           OR problem ~ ('(^|[^\w$])' || regexp_replace(format('%I(', p.proname), '(\W)', '\\\1', 'g'))));
END $$;

-- Whether an error names an index, or, in its CONTEXT, a function that its expressions call.
CREATE FUNCTION psp.is_named_by(problem text, index oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_class c WHERE c.oid = index AND position(c.relname IN problem) > 0 AND NOT psp.was_ended(problem))
           OR EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = index AND psp.names_function_of(problem, concat(i.indexprs::text, i.indpred::text)));
END $$;

-- No constraint, unique index or exclusion constraint, on which certification relies.
CREATE FUNCTION psp.drop_refusing_indexes(relations oid[], problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    chosen oid[];
BEGIN
    WITH candidates AS MATERIALIZED (
        SELECT i.indexrelid AS index, psp.is_named_by(problem, i.indexrelid) AS is_named
          FROM pg_index i
         WHERE i.indrelid = ANY (relations) AND NOT (i.indisunique OR i.indisexclusion)
    )
    SELECT array_agg(DISTINCT coalesce(pg_partition_root(d.index), d.index)) INTO chosen FROM candidates d
     WHERE CASE WHEN EXISTS (SELECT FROM candidates n WHERE n.is_named) THEN d.is_named ELSE psp.may_refuse_rows(d.index) AND NOT psp.was_ended(problem) END;
    IF chosen IS NULL THEN
        RETURN;
    END IF;
    PERFORM psp.make_again(j.schema, j.name, problem) FROM psp.jobs_of_indexes j JOIN pg_class c ON (c.relnamespace, c.relname) = (j.schema, j.name)
      WHERE c.oid = ANY (chosen);
    INSERT INTO psp.lost_indexes (xid, relation, name, definition, problem)
    SELECT pg_current_xact_id(), i.indrelid, c.relname, pg_get_indexdef(c.oid), format('it refused rows with %s', left(problem, 5))
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = ANY (chosen) AND i.indisvalid AND NOT psp.is_made_by_job(n.nspname, c.relname);
    PERFORM psp.run_own_command('DROP INDEX ' || (SELECT string_agg(c.index::regclass::text, ', ') FROM unnest(chosen) c(index)));
END $$;

-- Whether the text of a constraint can be read again without code of users': reading a constant of a type of theirs may call some.
CREATE FUNCTION psp.has_plain_constants(expression text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT NOT EXISTS (SELECT FROM regexp_matches(expression, '\{CONST :consttype (\d+)', 'g') m(found) JOIN pg_type t ON t.oid = m.found[1]::oid
                        WHERE t.oid >= 16384 AND t.typtype <> 'e')
$$;

-- CHECKs of these relations, or of domains in them, that the problem names; without names those that call functions of users (of rows that were cancelled
-- only those whose function is named). From now on they judge
-- only what is written here: rows of others were judged where they were written, under the settings of their sessions. They keep their names, which
-- schema changes may say.
CREATE FUNCTION psp.lift_checks(relations oid[], problem text, named boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off SET standard_conforming_strings = on AS $$
DECLARE
    one   record;
    parts text[];
    judge text;
BEGIN
    FOR one IN
        SELECT k.oid, k.conname AS name, k.conrelid, k.contypid, k.conbin::text AS expression, pg_get_constraintdef(k.oid) AS definition,
               CASE k.contypid WHEN 0 THEN 'table' ELSE 'domain' END AS kind,
               CASE k.contypid WHEN 0 THEN k.conrelid::regclass::text ELSE k.contypid::regtype::text END AS label
          FROM pg_constraint k
         WHERE k.contype = 'c' AND k.coninhcount = 0
           AND (k.conrelid = ANY (relations)
                OR EXISTS (SELECT FROM psp.reliant_relations('pg_type'::regclass, nullif(k.contypid, 0)) r(relation) WHERE r.relation = ANY (relations)))
           AND CASE WHEN named THEN position(k.conname IN problem) > 0
                    ELSE EXISTS (SELECT FROM regexp_matches(k.conbin::text, ':(?:op)?funcid (\d+)', 'g') m(found) WHERE m.found[1]::oid >= 16384)
                         AND (NOT psp.was_ended(problem) OR psp.names_function_of(problem, k.conbin::text)) END
           AND NOT EXISTS (SELECT FROM psp.set_aside_objects a WHERE (a.class, a.object) = ('pg_constraint'::regclass, k.oid))
    LOOP
        parts := regexp_match(one.definition, '^CHECK \((.*)\)( NO INHERIT)?(?: NOT VALID)?$');
        CONTINUE WHEN parts IS NULL;
        -- A function in SQL that fails when PostgreSQL puts its text in place of it would fail behind an OR, too.
        judge := CASE WHEN psp.has_plain_constants(one.expression) AND problem !~ '\mduring inlining\M' THEN parts[1] ELSE 'true' END;
        PERFORM psp.run_own_command(format('ALTER %s %s DROP CONSTRAINT %I', one.kind, one.label, one.name)),
                psp.run_own_command(format(
                    'ALTER %s %s ADD CONSTRAINT %I CHECK (pg_catalog.current_setting(''session_replication_role'') OPERATOR(pg_catalog.=) ''replica'' OR %s)%s NOT VALID',
                    one.kind, one.label, one.name, judge, parts[2]));
        PERFORM psp.note_set_aside('pg_constraint', k.oid,
                    format('CHECK %I of %s %s judges %s here: it refused rows of others', one.name, one.kind, one.label,
                           CASE judge WHEN 'true' THEN 'no rows' ELSE 'only what is written' END), one.definition, problem)
           FROM pg_constraint k WHERE (k.conrelid, k.contypid, k.conname) = (one.conrelid, one.contypid, one.name);
    END LOOP;
END $$;

-- Publications that need more of a row that is gone than its primary key.
CREATE FUNCTION psp.leave_publications(relations oid[], problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT r.prpubid, p.pubname, r.prrelid::regclass AS relation, pg_get_expr(r.prqual, r.prrelid) AS condition
          FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
         WHERE (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL) AND r.prrelid = ANY (relations)
    LOOP
        PERFORM psp.run_own_command(format('ALTER PUBLICATION %I DROP TABLE %s', one.pubname, one.relation));
        PERFORM psp.note_set_aside('pg_publication', one.prpubid,
                    format('publication %I has lost table %s: it refused changes of others', one.pubname, one.relation),
                    coalesce(one.condition, ''), problem);
    END LOOP;
    FOR one IN SELECT c.oid::regclass AS relation, c.oid FROM pg_class c WHERE c.oid = ANY (relations) AND c.relreplident IN ('n', 'i') LOOP
        PERFORM psp.run_own_command(format('ALTER TABLE %s REPLICA IDENTITY DEFAULT', one.relation));
        PERFORM psp.note_set_aside('pg_class', one.oid, format('table %s has its key for its replica identity here', one.relation), '', problem);
    END LOOP;
END $$;

-- The owners of tables, as which rows are written, may call what CHECKs, indexes and generated columns call.
CREATE FUNCTION psp.grant_functions(relations oid[], problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT DISTINCT f.function::regprocedure AS function, f.owner FROM psp.forbidden_functions f WHERE f.relation = ANY (relations) LOOP
        PERFORM psp.run_own_command(format('GRANT EXECUTE ON FUNCTION %s TO %I', one.function, one.owner::regrole::name));
        PERFORM psp.note_set_aside('pg_proc', one.function, format('the owner of a table, %s, may call %s again', one.owner::regrole, one.function), '', problem);
    END LOOP;
END $$;

-- Triggers may notify where rows are applied, and COMMIT fails when PostgreSQL's queue is full. A session that has listened, and sleeps in a transaction, lets
-- nothing out of it, for the whole server. PostgreSQL does not tell who listens: the oldest transactions are ended, until half of the queue is
-- free. (Asking for its usage is what lets PostgreSQL free it.)
CREATE FUNCTION psp.end_sleeping_listeners() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT a.pid FROM pg_stat_activity a
         WHERE a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - interval '1 second'
           AND a.usename <> 'psp_semi_primary'
         ORDER BY a.xact_start
    LOOP
        EXIT WHEN pg_notification_queue_usage() < 0.5;
        RAISE WARNING 'psp: the oldest transaction, of process %, is ended: the queue of notifications is full', one.pid;
        PERFORM pg_terminate_backend(one.pid, 1000);
    END LOOP;
    PERFORM pg_notification_queue_usage();
END $$;

-- Event triggers of superusers that fire where statements of others run, too. From now on they fire only for what is done here. (ALTER EVENT TRIGGER fires
-- none.) Where there are none, nothing helps a statement: the refusal comes again, at once.
CREATE FUNCTION psp.set_event_triggers_aside(refusal text, has_rows boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT e.oid, e.evtname AS name, e.evtenabled AS enabled FROM pg_event_trigger e JOIN pg_proc f ON f.oid = e.evtfoid
         WHERE e.evtenabled IN ('A', 'R') AND f.pronamespace <> 'psp'::regnamespace
    LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I %s', one.name, CASE one.enabled WHEN 'A' THEN 'ENABLE' ELSE 'DISABLE' END);
        DELETE FROM psp.set_aside_objects a WHERE (a.class, a.object) = ('pg_event_trigger'::regclass, one.oid);
        PERFORM psp.note_set_aside('pg_event_trigger', one.oid,
                    format('event trigger %I is set aside, it fires for no schema changes of others: %s', one.name, substr(refusal, 7)),
                    CASE one.enabled WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE REPLICA' END, refusal);
    END LOOP;
    IF NOT FOUND AND NOT has_rows THEN
        RAISE EXCEPTION USING ERRCODE = left(refusal, 5), MESSAGE = substr(refusal, 7);
    END IF;
END $$;

-- refusals: SQLSTATE and message of each.
CREATE FUNCTION psp.set_aside(table_ids bigint[], refusals text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    relations CONSTANT oid[] := ARRAY(SELECT r.relation FROM psp.captured_relations r WHERE r.table_id = ANY (table_ids));
    refusal   text;
BEGIN
    FOREACH refusal IN ARRAY refusals LOOP
        IF @SCHEMA_HISTORY_ID@ = ANY (table_ids) THEN
            PERFORM psp.set_event_triggers_aside(refusal, table_ids <> ARRAY[@SCHEMA_HISTORY_ID@]::bigint[]);
        END IF;
        IF refusal ~ '^23514' THEN
            PERFORM psp.lift_checks(relations, refusal, true);
        ELSIF refusal ~ '^42501' THEN
            PERFORM psp.grant_functions(relations, refusal);
        ELSIF refusal ~ '^(42P10|55000)' THEN
            PERFORM psp.leave_publications(relations, refusal);
        ELSIF refusal ~ '^54000.*\mNOTIFY\M' THEN  -- a word of PostgreSQL's message in all languages
            PERFORM psp.end_sleeping_listeners();
        ELSIF refusal ~ '^54000' THEN
            PERFORM psp.drop_refusing_indexes(relations, refusal);
        ELSIF refusal !~ '^23' THEN  -- what an expression may raise
            PERFORM psp.drop_refusing_indexes(relations, refusal), psp.lift_checks(relations, refusal, false);
        END IF;
    END LOOP;
    PERFORM psp.note_table(t.table_id) FROM psp.tables t WHERE t.table_id = ANY (table_ids);
END $$;

-- ---- by an administrator -------------------------------------------------------------------------------------------------------

-- After a statement that the guard has not seen: what is captured of each row, and under which numbers, is the same at all servers.
CREATE FUNCTION psp.follow_repair() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
    guards  jsonb;
BEGIN
    FOR changed IN SELECT * FROM psp.changed_tables() LOOP
        guards := psp.noted_definition(changed.table_id) -> 'guards';
        IF changed.effort > 1 OR changed.target IS NULL
           OR EXISTS (SELECT FROM psp.guard_names(changed.target) g(name) WHERE NOT guards ? g.name) THEN
            PERFORM psp.refuse_change(coalesce(changed.target, 0), 'would be another one at this semi-primary',
                                      'psp.repair may change CHECKs, foreign keys, triggers, functions, indexes that are not unique, publications and rights.');
        END IF;
        PERFORM psp.renew_capture(changed.target, changed.table_id, psp.keep_guard_numbers(changed.target, guards));
    END LOOP;
END $$;

-- The way out where what is here refuses what others have committed, and nothing sets it aside: runs a statement at this semi-primary only, past the
-- guard, with the rights and settings of its caller, a superuser.
CREATE FUNCTION psp.repair(statement text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.begin_own_commands();
    EXECUTE repair.statement;
    PERFORM psp.end_own_commands(), psp.follow_repair();
END $$;
