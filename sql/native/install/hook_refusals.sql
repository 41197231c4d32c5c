-- What the commit hook refuses, and the first and the last write of a transaction.
-- These functions are called by SECURITY DEFINER functions with a fixed search_path only.

-- Raises what stands in the way of sending a transaction that has written.
CREATE FUNCTION psp.refuse_commit(adopted boolean, bytes bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT adopted THEN
        RAISE EXCEPTION USING
            ERRCODE = 'serialization_failure',
            MESSAGE = 'psp: the transaction is older than the adoption of this database by psp',
            HINT = 'Retry the transaction.';
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'program_limit_exceeded',
        MESSAGE = format('psp: the write-set of %s bytes is too large', bytes),
        DETAIL = 'It is larger than any write_set_bytes_max of the daemons may be.',
        HINT = 'Split the transaction into smaller ones, a COPY into several, each of less than write_set_bytes_max.';
END $$;

-- Refuses what can still fail, or run an application's code, after the deferred triggers of a COMMIT: by then the
-- transaction would be committed everywhere else. (Foreign keys between temporary tables are refused by the DDL guard.)
CREATE FUNCTION psp.refuse_what_runs_later() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    cursors text := (SELECT string_agg(quote_ident(name), ', ') FROM pg_cursor()
                      -- If the clock was set back since, any of them may have been made in this transaction.
                      WHERE is_holdable AND (creation_time >= transaction_timestamp() OR statement_timestamp() < transaction_timestamp()));
BEGIN
    IF psp.is_prepare(current_query()) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: PREPARE TRANSACTION is not supported for transactions that write',
            HINT = 'Use COMMIT.';
    ELSIF cursors IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: a transaction that writes cannot leave a cursor WITH HOLD behind',
            DETAIL = format('PostgreSQL would run the rest of the query of %s after the transaction is decided.', cursors),
            HINT = 'Close the cursor before COMMIT, or declare it in a transaction of its own.';
    END IF;
END $$;

-- postgres_fdw commits at its server later still, or loses its connection then; file_fdw does nothing at COMMIT.
CREATE FUNCTION psp.refuse_foreign_tables() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    foreign_table text := (SELECT min(l.relation::regclass::text)
                             FROM pg_locks l
                             JOIN pg_foreign_table t ON t.ftrelid = l.relation
                             JOIN pg_foreign_server s ON s.oid = t.ftserver
                             JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
                             LEFT JOIN pg_proc h ON h.oid = w.fdwhandler
                            WHERE l.pid = pg_backend_pid() AND h.proname IS DISTINCT FROM 'file_fdw_handler');
BEGIN
    IF foreign_table IS NOT NULL OR psp.is_in_foreign_transaction() THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = 'psp: a transaction that writes cannot use foreign tables',
            DETAIL = format('The server of %s would be asked to commit after the transaction is decided, and may fail.',
                            coalesce(foreign_table, 'a foreign table')),
            HINT = 'Use foreign tables in a transaction of their own, for example to fill a temporary table.';
    END IF;
END $$;

-- What few transactions need before their request is sent, however it is captured.
CREATE FUNCTION psp.check_commit(tx uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.refuse_foreign_tables();
    -- Unlogged, and so empty from a crash of PostgreSQL until the daemon has heard of it. The transaction may not have seen
    -- commits of this semi-primary that the crash took and that the stream brings back.
    IF NOT EXISTS (SELECT FROM psp.apply_session) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'serialization_failure',
            MESSAGE = 'psp: PostgreSQL has come back from a crash, and the daemon has not begun again',
            HINT = 'Retry the transaction.';
    ELSIF current_setting('psp.show_transaction_id', true) = 'on' THEN
        RAISE NOTICE 'psp: transaction %', tx;
    END IF;
END $$;

-- Whether a client's message has a PREPARE TRANSACTION in it. Deferred triggers run at PREPARE, too, and nothing but the
-- message's text tells. Comments, strings and names are taken out, from left to right. Where PostgreSQL may have read the
-- message otherwise (backslashes, dollar quotes, comments inside comments), the two words alone decide.
CREATE FUNCTION psp.is_prepare(message text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    words CONSTANT text := E'prepare(\\s|--[^\\n\\r]*|/\\*.*\\*/)*transaction';
    token CONSTANT text := E'--[^\\n\\r]*|/\\*([^*/]|\\*(?!/)|/(?!\\*))*\\*/|''(''''|[^''])*''|"(""|[^"])*"';
    bare  text;
BEGIN
    IF message IS NULL OR message !~* words THEN
        RETURN false;
    ELSIF message ~ E'[\\\\$]' THEN
        RETURN true;
    END IF;
    bare := regexp_replace(message, token, ' ', 'g');
    RETURN bare ~ E'/\\*' OR bare ~* E'prepare\\s+transaction';
END $$;

-- A step of the commit hook that few transactions take. PostgreSQL refuses psp's own writes in a transaction that was made
-- read-only after it had written. If constraints were made immediate (SET CONSTRAINTS ALL IMMEDIATE), the event runs at once,
-- nested in another one: it is queued again, deferred, and waits for the real COMMIT.
CREATE FUNCTION psp.postpone_commit(intent psp.commit_intent) RETURNS psp.commit_intent
LANGUAGE plpgsql AS $$
BEGIN
    IF intent.filler THEN
        RETURN NULL;
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'read_only_sql_transaction',
            MESSAGE = 'psp: a transaction that has written cannot be made read-only',
            HINT = 'Leave out SET TRANSACTION READ ONLY.';
    END IF;
    SET CONSTRAINTS psp.psp_commit DEFERRED;
    UPDATE psp.commit_intent SET step = 0 WHERE xid = intent.xid;
    RETURN NULL;
END $$;

-- Raises why a transaction may not write (any more).
CREATE FUNCTION psp.refuse_write(x xid8, decided boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tx uuid;
BEGIN
    IF decided THEN
        SELECT psp.id_of_own_transaction(i.token, x, i.sp_id) INTO tx FROM psp.identity i;
        RAISE EXCEPTION USING
            ERRCODE = 'transaction_resolution_unknown',
            MESSAGE = 'psp: the transaction is being committed, nothing more can be written in it',
            DETAIL = format('What transaction %s wrote before may have been committed or not.', tx),
            HINT = format('SELECT psp.outcome(%L) tells which.', tx);
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = 'psp: SERIALIZABLE transactions cannot write',
        DETAIL = 'Reads of other semi-primaries are not certified, so SERIALIZABLE would not mean what it says.',
        HINT = 'Use REPEATABLE READ; or SET psp.serializable = ''repeatable read'', which takes the one for the other.';
END $$;

-- Whether the session takes SERIALIZABLE for what psp can provide. It is told once.
CREATE FUNCTION psp.takes_serializable() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('psp.serializable', true) IS DISTINCT FROM 'repeatable read' THEN
        RETURN false;
    END IF;
    IF current_setting('psp.serializable_told', true) IS DISTINCT FROM 'on' THEN
        RAISE NOTICE USING
            MESSAGE = 'psp: SERIALIZABLE is taken for REPEATABLE READ, as psp.serializable says',
            DETAIL = 'Reads are not certified: two transactions at different semi-primaries may each read what the other one writes.';
        PERFORM set_config('psp.serializable_told', 'on', false);
    END IF;
    RETURN true;
END $$;

-- The first write of a transaction, or a write that comes too late. Called by the capture functions when
-- psp.commit_intent holds no row of the transaction, or one that is past writing. (A SET clause would cost more than the
-- rest.)
CREATE FUNCTION psp.begin_intent(x xid8, decided boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF decided OR pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' AND NOT psp.takes_serializable() THEN
        RETURN psp.refuse_write(x, decided);
    END IF;
    INSERT INTO psp.commit_intent (xid) VALUES (x);
    RETURN false;
END $$;

-- Without event triggers nobody is kept from changing a captured table. Its rows would be read as the old definition has them elsewhere: other
-- values, or an error that stops every server. It runs as the role that adopted the database, which may read what was noted.
CREATE FUNCTION psp.refuse_changed_tables() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
BEGIN
    IF (SELECT i.guarded FROM psp.identity i) THEN
        RETURN;
    END IF;
    SELECT c.* INTO changed
      FROM psp.changed_objects(ARRAY(
               SELECT r.relation FROM psp.captured_relations r
                WHERE r.table_id IN (SELECT w.table_id FROM psp.write_set w WHERE w.xid = pg_current_xact_id()))) c
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = format('psp: %I.%I is not what was adopted, the transaction is rolled back', changed.schema_name, changed.relation_name),
            DETAIL = format('Changed at this semi-primary only: %s %I.', changed.kind, changed.name),
            HINT = 'Take the change back. It needs the release of all semi-primaries, and adoption again: this one has no event triggers.';
    END IF;
END $$;
