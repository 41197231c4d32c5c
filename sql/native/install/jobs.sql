-- Jobs: statements that PostgreSQL runs in no transaction (CREATE INDEX CONCURRENTLY, REINDEX, VACUUM). They reach every semi-primary as rows of
-- psp.schema_history, with `job` among the settings, and each daemon runs them one after the other, outside of the stream
-- (semi_primary/jobs/job_runner.h). docs/decisions/35.

CREATE VIEW psp.schema_jobs AS
SELECT h.change, h.statement_n, h.executed_at AS requested_at, h.sp_name, h.role, h.statement, j.state, j.attempts, j.last_error, j.changed_at
  FROM psp.jobs j JOIN psp.schema_history h USING (change, statement_n);

-- The parts of a text that makes one index: what comes before its name, the name (null: it gives none), what comes after it, and the
-- table in that. All null: it does something else. bare: without the comments that may be around it or in it.
CREATE FUNCTION psp.index_in(bare text, OUT beginning text, OUT name text, OUT rest text, OUT relation text) RETURNS record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(bare, psp.statement_pattern(concat(
        '(CREATE(?: UNIQUE)? INDEX(?: CONCURRENTLY)?(?: IF NOT EXISTS)?)(?: (NAME))? ',
        '(ON(?: ONLY)? (NAME(?:_\._NAME)?)(?: |_\().*)')), 'i');
BEGIN
    beginning := parts[1];
    name := parts[2];
    rest := parts[3];
    relation := parts[4];
END $$;

-- The index that a job makes; null: it makes none, or gives it no name.
CREATE FUNCTION psp.index_of_job(statement text) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    made CONSTANT record := psp.index_in(psp.bare_statement(statement));
BEGIN
    RETURN CASE WHEN made.beginning ~* '^create\s+index\s+concurrently\M' THEN psp.bare_name(made.name) END;
END $$;

-- A text that makes an index, with this name for it.
CREATE FUNCTION psp.with_name_of_index(statement text, name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    made CONSTANT record := psp.index_in(psp.bare_statement(statement));
BEGIN
    RETURN coalesce(made.beginning || ' ' || name || ' ' || made.rest, statement);
END $$;

-- Whether an ordinary statement becomes a job when it has run here.
CREATE FUNCTION psp.becomes_job(tag text, message text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tag IN ('CREATE INDEX', 'DROP INDEX') AND psp.can_be_job(psp.with_name_of_index(message, 'named'));
END $$;

-- Whether it is one that drops an index which this server has alone: other servers may have another one of that name.
CREATE FUNCTION psp.drops_index_alone(tag text, message text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tag = 'DROP INDEX'
           AND EXISTS (SELECT FROM unnest(psp.indexes_in(message)) n(name) JOIN psp.indexes_alone a ON a.index = psp.relation_named(n.name, role, settings));
END $$;

-- Whether it makes an index of a table that this server has alone: no other one could make it.
CREATE FUNCTION psp.makes_index_alone(tag text, message text, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tag = 'CREATE INDEX'
           AND EXISTS (SELECT FROM psp.local_objects l WHERE (l.class, l.object) = ('pg_class'::regclass, psp.table_of_index(message, role, settings)));
END $$;

-- Whether a text can be a job: a single statement of these kinds. What is inside it (a function of an index) cannot change the role.
CREATE FUNCTION psp.can_be_job(statement text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    bare CONSTANT text := psp.bare_statement(statement);
BEGIN
    RETURN NOT psp.may_have_several(bare)
           AND (psp.index_of_job(statement) IS NOT NULL OR bare ~* '^(drop\s+index\s+concurrently|reindex|vacuum|analyze)\M');
END $$;

CREATE FUNCTION psp.check_job(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT psp.can_be_job(statement) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: the statement cannot be a job',
            DETAIL = 'Jobs are CREATE INDEX CONCURRENTLY with a name, DROP INDEX CONCURRENTLY, REINDEX, VACUUM and ANALYZE.',
            HINT = 'What PostgreSQL runs in a transaction goes with the stream: run it as it is, or by psp.ddl.';
    END IF;
END $$;

-- Lets every semi-primary run a statement outside of the stream. With the rights and settings of its caller, like psp.ddl.
CREATE FUNCTION psp.job(statement text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO psp.new_statement (settings, statement) VALUES (psp.statement_settings() OPERATOR(pg_catalog.||) '{"job": true}', job.statement);
END $$;

-- What a statement of this role and these settings finds by a name; null: nothing. As PostgreSQL does, it passes over schemas that the role
-- may not use.
CREATE FUNCTION psp.relation_named(name text, role name, settings jsonb) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT name[] := parse_ident(name);
BEGIN
    RETURN (SELECT c.oid
              FROM (SELECT 1, parts[1] WHERE cardinality(parts) = 2
                    UNION ALL SELECT 0, 'pg_catalog' WHERE cardinality(parts) = 1
                    UNION ALL SELECT p.n, p.name FROM psp.names_in_path(settings ->> 'search_path', role) p
                               WHERE cardinality(parts) = 1 AND coalesce(settings -> 'schemas' ? p.name, true)) s(n, name)
              JOIN pg_namespace n ON n.nspname = s.name JOIN pg_class c ON c.relnamespace = n.oid
             WHERE c.relname = parts[cardinality(parts)]
               AND coalesce(has_schema_privilege(to_regrole(quote_ident(role)), n.oid, 'USAGE'), true)  -- there may be no such role here
             ORDER BY s.n LIMIT 1);
END $$;

-- The table of the index that a statement makes; null: it makes none, or there is no such table.
CREATE FUNCTION psp.table_of_index(statement text, role name, settings jsonb) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN psp.relation_named((psp.index_in(psp.without_comments(statement))).relation, role, settings);
END $$;

-- A row of psp.schema_history that is a job has arrived. is_done: it has run here already. A semi-primary that joins makes its tables and
-- indexes new, so it needs no older REINDEX, VACUUM or ANALYZE.
CREATE FUNCTION psp.note_job(job psp.schema_history, is_done boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    INSERT INTO psp.jobs (change, statement_n, state, relation, index_name)
    SELECT job.change, job.statement_n,
           CASE WHEN is_done OR i.joining AND psp.bare_statement(job.statement) !~* '^(create|drop)\M' THEN 'done' ELSE 'waiting' END,
           psp.table_of_index(job.statement, job.role, job.settings), psp.index_of_job(job.statement)
      FROM psp.identity i;
END $$;

-- ---- an index that a job makes gets another name by an ordinary statement, or is dropped (leftovers.sql) --------------------------

-- The jobs that make indexes of tables that there are.
CREATE VIEW psp.jobs_of_indexes AS
SELECT j.change, j.statement_n, j.state, j.relation, t.relnamespace AS schema, j.index_name AS name,
       format('%s.%I', t.relnamespace::regnamespace, j.index_name) AS label
  FROM psp.jobs j JOIN pg_class t ON t.oid = j.relation
 WHERE j.index_name IS NOT NULL;

CREATE FUNCTION psp.is_made_by_job(schema name, name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.jobs_of_indexes j JOIN pg_namespace n ON n.oid = j.schema
                    WHERE (n.nspname, j.name) = (is_made_by_job.schema, is_made_by_job.name));
END $$;

-- The index of a job that has just got another name: the old one with its schema, and the new one. Null: it has not.
CREATE FUNCTION psp.renamed_index_of_job(index oid) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN (SELECT ARRAY[format('%I.%I', n.nspname, l.name), quote_ident(c.relname)]
              FROM psp.local_indexes l JOIN pg_class c ON c.oid = l.index JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE l.index = renamed_index_of_job.index AND l.name <> c.relname AND psp.is_made_by_job(n.nspname, l.name));
END $$;

-- Whether a schema change may rename this index although other servers need not have it yet. (Of a text of psp.ddl they would get the
-- text as it is.)
CREATE FUNCTION psp.may_rename_index_of_job(index oid, command text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN command = 'ALTER INDEX'
           AND CASE current_setting('session_replication_role')
                   WHEN 'replica' THEN (SELECT psp.is_made_by_job(n.nspname, c.relname)
                                          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = index)
                   ELSE (psp.running_ddl()).depth IS NOT DISTINCT FROM 1 AND psp.renamed_index_of_job(index) IS NOT NULL END;
END $$;

-- A schema change renames an index: the job that makes it, if it has still to do that, gives it this name. names: the old one with its schema, the
-- new one.
CREATE FUNCTION psp.rename_index_of_job(names jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.jobs j SET index_name = psp.bare_name(names ->> 1)
      FROM psp.jobs_of_indexes o WHERE (o.change, o.statement_n) = (j.change, j.statement_n) AND o.label = names ->> 0;
END $$;

-- Lets the newest job that makes this index, if there is one, do that again. One that runs may just have made it to its end.
CREATE FUNCTION psp.make_again(schema oid, name name, problem text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job psp.jobs;
BEGIN
    SELECT j.* INTO job FROM psp.jobs j JOIN psp.jobs_of_indexes o USING (change, statement_n)
     WHERE (o.schema, o.name) = (make_again.schema, make_again.name) ORDER BY j.change DESC, j.statement_n DESC LIMIT 1 FOR UPDATE OF j;
    IF job.state = 'running' THEN
        RAISE EXCEPTION USING ERRCODE = 'lock_not_available', MESSAGE = format('psp: job %s.%s runs, and makes index %I', job.change, job.statement_n, name);
    END IF;
    UPDATE psp.jobs j SET state = 'waiting', try_at = clock_timestamp(), last_error = problem, changed_at = clock_timestamp()
     WHERE (j.change, j.statement_n) = (job.change, job.statement_n);
END $$;

-- The names that stand in a text which drops or alters indexes; null: it is not understood, or does something else.
CREATE FUNCTION psp.indexes_in(statement text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    one   CONSTANT text := 'NAME(?:_\._NAME)?';
    parts CONSTANT text[] := regexp_match(psp.without_comments(statement), psp.statement_pattern(
        concat('(?:DROP INDEX(?: CONCURRENTLY)?(?: IF EXISTS)? (', one, '(?:_,_', one, ')*)(?: (?:CASCADE|RESTRICT))?',
               '|ALTER INDEX(?: IF EXISTS)? (', one, ') [^;]*)')), 'i');
BEGIN
    RETURN CASE WHEN parts IS NOT NULL
                THEN ARRAY(SELECT m.found[1] FROM regexp_matches(coalesce(parts[1], parts[2]), btrim(psp.statement_pattern(one), '^$'), 'g') m(found)) END;
END $$;

-- Whether a statement of this role and these settings means by a name the index that a job has still to make.
CREATE FUNCTION psp.means_index_of_job(name text, job psp.jobs_of_indexes, role name, settings jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts CONSTANT name[] := parse_ident(name);
BEGIN
    RETURN parts[cardinality(parts)] = job.name
           AND CASE WHEN cardinality(parts) > 1 THEN parts[1] = (SELECT n.nspname FROM pg_namespace n WHERE n.oid = job.schema)
                    ELSE coalesce((SELECT c.relnamespace = job.schema FROM pg_class c WHERE c.oid = psp.relation_named(name, role, settings)),
                                  EXISTS (SELECT FROM psp.names_in_path(settings ->> 'search_path', role) p JOIN pg_namespace n ON n.nspname = p.name
                                           WHERE n.oid = job.schema)) END;
END $$;

-- label: of an index that a job has still to make.
CREATE FUNCTION psp.refuse_before_job(label text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'object_in_use', MESSAGE = format('psp: the job that makes index %s here has not ended', label),
        HINT = 'psp.schema_jobs tells its state. DROP INDEX CONCURRENTLY is a job that comes after it.';
END $$;

-- DROP INDEX IF EXISTS would leave the index to the job, which makes it afterwards, and to the other servers.
CREATE FUNCTION psp.check_jobs_have_run(statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names CONSTANT text[] := psp.indexes_in(statement);
    words CONSTANT text[] := psp.words_of(statement);
BEGIN
    PERFORM psp.refuse_before_job(min(j.label)) FROM psp.jobs_of_indexes j
      WHERE j.state <> 'done'
        AND CASE WHEN names IS NULL THEN psp.is_named(j.name, statement, words)
                 ELSE EXISTS (SELECT FROM unnest(names) n(name) WHERE psp.means_index_of_job(n.name, j, role, settings)) END
     HAVING count(*) > 0;
END $$;

-- The name of an index that a session is about to make CONCURRENTLY must not be that of one which a job has still to make.
CREATE FUNCTION psp.check_name_for_job(statement text, role name, settings jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.refuse_before_job(min(j.label)) FROM psp.jobs_of_indexes j JOIN pg_class t ON t.relnamespace = j.schema
      WHERE j.state <> 'done' AND j.name = psp.index_of_job(statement) AND t.oid = psp.table_of_index(statement, role, settings)
     HAVING count(*) > 0;
END $$;

-- When a statement has run here first: nothing that it has made or renamed may have the name of such an index, which other servers may have. (The
-- job's own, or what an attempt at it has left, PostgreSQL may have made again.)
CREATE FUNCTION psp.check_names_of_jobs() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.refuse_before_job(min(j.label))
       FROM psp.jobs_of_indexes j JOIN pg_class c ON (c.relnamespace, c.relname) = (j.schema, j.name)
      WHERE j.state <> 'done' AND psp.is_own_write(c.xmin)
        AND NOT EXISTS (SELECT FROM psp.local_indexes l WHERE (l.relation, l.name) = (j.relation, j.name))
     HAVING count(*) > 0;
END $$;

-- Where a schema change arrives that drops these indexes: no job makes them any more. One that runs is ended; a session that begins it in
-- this moment waits for the rows that are locked here, and sees then that it is not wanted (psp.is_wanted_job).
CREATE FUNCTION psp.end_jobs_of(indexes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job psp.jobs;
BEGIN
    FOR job IN
        SELECT j.* FROM psp.jobs j
         WHERE j.state <> 'done' AND (j.change, j.statement_n) IN (SELECT o.change, o.statement_n FROM psp.jobs_of_indexes o WHERE indexes ? o.label)
           FOR UPDATE
    LOOP
        IF job.state = 'running' THEN
            PERFORM pg_stat_clear_snapshot();
            IF NOT psp.end_older_jobs() THEN
                RAISE EXCEPTION USING ERRCODE = 'lock_not_available', MESSAGE = format('psp: job %s.%s does not end', job.change, job.statement_n);
            END IF;
            PERFORM psp.take_back_job_roles();
        END IF;
        UPDATE psp.jobs j SET state = 'done', last_error = 'the index has been dropped', changed_at = clock_timestamp()
         WHERE (j.change, j.statement_n) = (job.change, job.statement_n);
    END LOOP;
END $$;

-- After a schema change that drops these indexes: no server has them any more, and no job of that name has made what comes later.
CREATE FUNCTION psp.forget_dropped_indexes(indexes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.jobs j SET index_name = NULL FROM psp.jobs_of_indexes o WHERE (o.change, o.statement_n) = (j.change, j.statement_n) AND indexes ? o.label;
END $$;

-- ---- by the daemon -----------------------------------------------------------------------------------------------------------------

-- The daemon's role may act as a job's role while the job runs. Takes that back, also after a crash.
CREATE FUNCTION psp.take_back_job_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    granted name;
BEGIN
    FOR granted IN
        SELECT DISTINCT r.rolname
          FROM psp.jobs j JOIN psp.schema_history h USING (change, statement_n) JOIN pg_roles r ON r.rolname = h.role
         WHERE j.state = 'running' AND r.rolname NOT IN ('pg_monitor', 'pg_signal_backend')
    LOOP
        EXECUTE format('REVOKE %I FROM psp_semi_primary', granted);
    END LOOP;
END $$;

-- Ends what an earlier daemon's job may still do: its backend waits for a lock, and does not notice that the daemon is gone. Whether none is
-- left.
CREATE FUNCTION psp.end_older_jobs() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    older integer;
BEGIN
    FOR older IN
        SELECT a.pid FROM pg_stat_activity a
         WHERE (a.datname, a.usename, a.application_name) = (current_database(), session_user, 'psp job')
    LOOP
        IF NOT pg_terminate_backend(older, 1000) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END $$;

CREATE FUNCTION psp.longest_pause_of_jobs() RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT interval '10 min' $$;

-- The next job, which runs from now on; null: there is none. leftover: an index that an attempt has left behind.
CREATE FUNCTION psp.begin_job(OUT change integer, OUT statement_n integer, OUT statement text, OUT role name, OUT settings jsonb,
                              OUT is_drop boolean, OUT leftover text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
    next     record;
    made     oid;
    is_valid boolean;
BEGIN
    LOOP
        SELECT j.change, j.statement_n, j.attempts, j.try_at, j.relation, j.index_name, h.role, h.settings,
               coalesce(psp.with_name_of_index(h.statement, quote_ident(j.index_name)), h.statement) AS statement INTO next
          FROM psp.jobs j JOIN psp.schema_history h USING (change, statement_n)
         WHERE j.state IN ('waiting', 'running') ORDER BY j.change, j.statement_n LIMIT 1;
        -- No pause is longer: the clock was set back.
        IF NOT FOUND OR next.try_at BETWEEN clock_timestamp() AND clock_timestamp() + psp.longest_pause_of_jobs() OR (SELECT i.joining FROM psp.identity i) OR NOT psp.end_older_jobs() THEN
            RETURN;
        END IF;
        SELECT i.indexrelid, i.indisvalid INTO made, is_valid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE (next.attempts > 0 OR NOT i.indisvalid) AND i.indrelid = next.relation AND c.relname = next.index_name;
        IF NOT psp.can_be_job(next.statement) THEN  -- the row is not from psp
            PERFORM psp.end_job(next.change, next.statement_n, 'failed', 'the statement cannot be a job');
        ELSIF psp.may_change_schema(next.role) IS NOT TRUE THEN
            PERFORM psp.end_job(next.change, next.statement_n, 'failed',
                                format('role %I is missing, or may not change the schema', next.role));
        ELSIF next.relation IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = next.relation) THEN
            PERFORM psp.end_job(next.change, next.statement_n, 'done', 'the table has been dropped meanwhile');
        ELSIF is_valid THEN
            PERFORM psp.end_job(next.change, next.statement_n, 'done', NULL);
        ELSE
            EXIT;
        END IF;
    END LOOP;
    PERFORM psp.take_back_job_roles();
    UPDATE psp.jobs j SET state = 'running', attempts = j.attempts + 1, changed_at = clock_timestamp()
     WHERE (j.change, j.statement_n) = (next.change, next.statement_n) AND j.state IN ('waiting', 'running');
    IF NOT FOUND THEN  -- psp.end_jobs_of has ended it meanwhile
        RETURN;
    END IF;
    EXECUTE format('GRANT %I TO psp_semi_primary', next.role);
    change := next.change;
    statement_n := next.statement_n;
    statement := next.statement;
    role := next.role;
    settings := next.settings;
    is_drop := psp.bare_statement(next.statement) ~* '^drop\M';
    leftover := made::regclass;
END $$;

-- In the session that is to run it: whether it is still to be run.
CREATE FUNCTION psp.is_wanted_job(change integer, statement_n integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM psp.jobs j WHERE (j.change, j.statement_n, j.state) = (is_wanted_job.change, is_wanted_job.statement_n, 'running') FOR UPDATE;
    RETURN FOUND;
END $$;

-- state: 'done', 'failed', or 'waiting' for another attempt. A superuser may call it for a job that is of no use any more. One that is
-- done stays so.
CREATE FUNCTION psp.end_job(change integer, statement_n integer, state text, error text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.take_back_job_roles();
    UPDATE psp.jobs j
       SET state = end_job.state, last_error = error, changed_at = clock_timestamp(),
           try_at = clock_timestamp() + least(j.attempts * interval '5 s', psp.longest_pause_of_jobs())
     WHERE (j.change, j.statement_n) = (end_job.change, end_job.statement_n) AND j.state <> 'done';
END $$;

-- After the cause of a failure is gone: once more. For superusers.
CREATE FUNCTION psp.retry_job(change integer, statement_n integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE psp.jobs j SET state = 'waiting', try_at = clock_timestamp()
     WHERE (j.change, j.statement_n) = (retry_job.change, retry_job.statement_n) AND j.state IN ('failed', 'waiting');
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'no_data_found', MESSAGE = format('psp: no job %s.%s has failed here', change, statement_n),
                              HINT = 'psp.schema_jobs lists them.';
    END IF;
END $$;
