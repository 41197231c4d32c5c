-- A transaction's life, as the client, the local workers, the garbage collector and a daemon's start move it on.
-- docs/security.md tells as which roles the functions run; those for clients are granted in grants.sql.

-- A database that is registered nowhere works, too.
INSERT INTO psp.watermarks VALUES (0);

-- ---- for clients --------------------------------------------------------------------------------------------------

-- Begins a transaction inside the open transaction of PostgreSQL, whose COMMIT must come before the commit request.
CREATE FUNCTION psp.begin() RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    tx uuid;
BEGIN
    IF current_setting('psp.tx_id', true) <> '' THEN
        RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = 'psp: a transaction has begun already';
    ELSIF current_setting('transaction_isolation') = 'serializable' THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'psp: SERIALIZABLE is not supported',
            HINT = 'Use REPEATABLE READ.';
    END IF;
    INSERT INTO psp.transactions (tx_id, xid, watermark, seen, catalog_version, epoch)
    SELECT psp.transaction_uuid(pg_current_xact_id(), coalesce(i.sp_id, 0), uuid_send(gen_random_uuid())),
           pg_current_xact_id(), w.watermark, ARRAY(SELECT a.global_t FROM psp.applied a), coalesce(i.catalog_version, 1), t.epoch
      FROM psp.temp_alive t CROSS JOIN psp.watermark w LEFT JOIN psp.identity i ON true
     WHERE i.joining IS NOT TRUE
    RETURNING tx_id INTO tx;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'cannot_connect_now',
            MESSAGE = 'psp: the semi-primary joins the cluster, or its daemon has not begun again after a crash',
            HINT = 'Try again when its daemon has finished.';
    END IF;
    -- The lock is held to the end of the transaction: a commit request that finds no row tells "still open" from "unknown".
    PERFORM pg_advisory_xact_lock(hashtextextended(tx::text, 0)), set_config('psp.tx_id', tx::text, true);
    RETURN tx;
END $$;

-- The variant of the views that names without a schema mean, in the session or the rest of the transaction: puts the
-- variant's schemas before the application's
-- in search_path, or takes them out. Queries that do not switch pay nothing.
CREATE FUNCTION psp.select_variant(variant text, this_transaction_only boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    path text[] := '{}';
    element text;
    name text;
    variant_schema text;
BEGIN
    IF variant IS NULL OR variant NOT IN ('union', 'fulljoin', 'nryotw') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = pg_catalog.format('psp: there is no variant %L of the views', variant),
            HINT = 'Choose union, fulljoin or nryotw.';
    END IF;
    FOR element IN
        SELECT m[1] FROM pg_catalog.regexp_matches(
            pg_catalog.current_setting('search_path'), '"(?:[^"]|"")+"|[^,\s]+', 'g') m
    LOOP
        name := CASE WHEN pg_catalog.left(element, 1) = '"'
                     THEN pg_catalog.replace(pg_catalog.substr(element, 2, pg_catalog.length(element) - 2), '""', '"')
                     ELSE pg_catalog.lower(element) END;
        CONTINUE WHEN EXISTS (SELECT FROM psp.variant_schemas s WHERE s.variant_schema = name);
        IF name = '$user' THEN
            name := current_user;
        END IF;
        SELECT s.variant_schema INTO variant_schema FROM psp.variant_schemas s
         WHERE s.schema_name = name AND s.variant = select_variant.variant;
        IF FOUND THEN
            path := path || pg_catalog.quote_ident(variant_schema);
        END IF;
        path := path || element;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', pg_catalog.array_to_string(path, ', '), this_transaction_only);
END $$;

-- What became of a transaction; NULL: it is not known here, or its transaction of PostgreSQL is still open.
CREATE FUNCTION psp.outcome(tx uuid) RETURNS psp.tx_status
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.status FROM psp.transactions t WHERE t.tx_id = tx
$$;

-- Where the daemon takes commit requests; NULL: it has never run. Exists in views mode only, so clients tell by it how to
-- begin and commit.
CREATE FUNCTION psp.client_endpoint() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.client_endpoint FROM psp.identity i
$$;

-- Each view's trigger, by the table's number, for a transaction's first statement that writes the table: writes that down,
-- and refuses what is outside psp.begin … COMMIT, which would never be certified. No SET clauses, so all names have a schema.
CREATE FUNCTION psp.first_write() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF coalesce(pg_catalog.current_setting('psp.tx_id', true), '') OPERATOR(pg_catalog.=) '' THEN
        RAISE EXCEPTION USING ERRCODE = 'no_active_sql_transaction', MESSAGE = 'psp: no transaction has begun',
            HINT = 'BEGIN, SELECT psp.begin(), write, COMMIT, then send the commit request.';
    END IF;
    INSERT INTO psp.written (xid, table_id) VALUES (pg_catalog.pg_current_xact_id(), TG_ARGV[0]::pg_catalog.int4);
    PERFORM pg_catalog.set_config('psp.written', pg_catalog.concat(
        coalesce(nullif(pg_catalog.current_setting('psp.written', true), ''), ' '), TG_ARGV[0], ' '), true);
    RETURN NULL;
END $$;

-- ---- for local workers --------------------------------------------------------------------------------------------

-- A commit request, for the first time or again. The result's status tells what to do:
--   waiting    send the write-set to the primary, or send it again      committed, aborted   answer
--   pending    ask the primary's log                                    NULL                 no such transaction here;
--                                                                       the primary's log may know it, else aborted
-- 25001: the transaction of PostgreSQL is still open. 57P03: PostgreSQL has crashed, and psp.make_pending has not run yet.
CREATE FUNCTION psp.request_commit(tx uuid) RETURNS psp.transactions
LANGUAGE plpgsql AS $$
DECLARE
    found_tx psp.transactions;
BEGIN
    UPDATE psp.transactions t SET status = 'waiting', changed_at = clock_timestamp() FROM psp.temp_alive a
     WHERE t.tx_id = tx AND t.status = 'running' AND a.epoch = t.epoch RETURNING t.* INTO found_tx;
    IF FOUND THEN
        RETURN found_tx;
    END IF;
    -- Or a transaction whose temporary rows are lost would look as if it had written nothing.
    IF NOT EXISTS (SELECT FROM psp.temp_alive) THEN
        RAISE EXCEPTION USING ERRCODE = 'cannot_connect_now', MESSAGE = 'psp: PostgreSQL has come back from a crash, and the daemon has not begun again';
    END IF;
    -- The lock first: the transaction may end between two looks.
    IF NOT pg_try_advisory_xact_lock_shared(hashtextextended(tx::text, 0)) THEN
        RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = 'psp: the transaction is still open',
            HINT = 'COMMIT it before the commit request.';
    END IF;
    SELECT t.* INTO found_tx FROM psp.transactions t WHERE t.tx_id = tx;
    IF found_tx.status = 'running' AND EXISTS (SELECT FROM psp.temp_alive a WHERE a.epoch = found_tx.epoch) THEN
        RETURN psp.request_commit(tx);  -- it has just ended
    END IF;
    -- A crash has taken what it wrote, and COMMIT PREPARED came after psp.make_pending.
    UPDATE psp.transactions t SET status = 'pending', changed_at = clock_timestamp()
     WHERE t.tx_id = tx AND t.status = 'running' RETURNING t.* INTO found_tx;
    IF NOT FOUND THEN
        SELECT t.* INTO found_tx FROM psp.transactions t WHERE t.tx_id = tx;
    END IF;
    RETURN found_tx;
END $$;

-- What became of a transaction, without asking for anything. is_open: its transaction of PostgreSQL has not ended.
-- Neither: not known here.
CREATE FUNCTION psp.look(tx uuid, OUT status psp.tx_status, OUT is_open boolean, OUT decided_t bigint, OUT sqlstate text,
                         OUT reason text, OUT detail text, OUT hint text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The lock first: the transaction may end between two looks.
    is_open := NOT pg_try_advisory_xact_lock_shared(hashtextextended(tx::text, 0));
    SELECT t.status, t.global_t, coalesce(t.sqlstate, '40000'), t.reason, t.detail, t.hint
      INTO status, decided_t, sqlstate, reason, detail, hint FROM psp.transactions t WHERE t.tx_id = tx;
    is_open := is_open AND status IS NULL;
END $$;

-- The end of an aborted transaction; what is finished already stays as it is. Returns the status it has now.
CREATE FUNCTION psp.abort(tx uuid, why text, state text DEFAULT NULL, details text DEFAULT NULL, hints text DEFAULT NULL)
RETURNS psp.tx_status
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_status psp.tx_status;
BEGIN
    UPDATE psp.transactions t SET status = 'aborted', sqlstate = state, reason = why, detail = details, hint = hints,
           changed_at = clock_timestamp()
     WHERE t.tx_id = tx AND t.status IN ('running', 'waiting', 'pending');
    SELECT t.status INTO found_status FROM psp.transactions t WHERE t.tx_id = tx;
    RETURN found_status;
END $$;

-- What a client asks for. A transaction whose commit was requested before stays as it is.
CREATE FUNCTION psp.abort_running(tx uuid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.transactions SET status = 'aborted', reason = 'aborted by its client', changed_at = clock_timestamp()
     WHERE tx_id = tx AND status = 'running'
$$;

-- Whether a committed transaction's rows are in, no matter which daemon or backend has applied them.
CREATE FUNCTION psp.is_applied(decided_t bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM psp.applied WHERE global_t = decided_t)
        OR EXISTS (SELECT FROM psp.watermark WHERE watermark >= decided_t)
$$;

-- The end of a waiting transaction whose write-set is empty: the primary need not know of it.
CREATE FUNCTION psp.finish_read_only(tx uuid) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.transactions SET status = 'committed', changed_at = clock_timestamp()
     WHERE tx_id = tx AND status = 'waiting'
$$;

-- Forgets finished transactions, long after their temporary rows are gone: those with an older xid that ended so long ago. (The clock may
-- jump, so that it makes none old alone.) A client that asks again is answered from the primary's log. Returns how many.
CREATE FUNCTION psp.forget(begun_before xid8, retention interval) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH forgotten AS (
        DELETE FROM psp.transactions
         WHERE status IN ('committed', 'aborted') AND xid < begun_before AND changed_at < clock_timestamp() - retention
        RETURNING 1)
    SELECT count(*) FROM forgotten
$$;

-- Has PostgreSQL forget how large each T_temp and psp.written were when it last looked: rows come and go there by the
-- thousands. Of one that was nearly empty then, or that a crash has emptied since, it expects that reading the whole costs next
-- to nothing, and reads the whole for each row that a statement writes; of one that it has never seen it expects some pages
-- full, and looks each row up by its key. (From PostgreSQL 18 on this is pg_clear_relation_stats.) What VACUUM has at work now waits for the next time.
CREATE FUNCTION psp.forget_statistics() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    psp_temp regclass;
BEGIN
    FOR psp_temp IN
        SELECT c.oid FROM (SELECT schema_name, temp FROM psp.converted_tables UNION ALL VALUES ('psp', 'written')) t (schema, name)
          JOIN pg_namespace n ON n.nspname = t.schema
          JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name
         WHERE c.reltuples >= 0
            OR EXISTS (SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = c.oid AND i.reltuples >= 0)
    LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE NOWAIT', psp_temp);  -- as VACUUM, which writes them
            UPDATE pg_class SET relpages = 0, reltuples = -1, relallvisible = 0
             WHERE oid = psp_temp OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = psp_temp);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
END $$;

-- ---- for a daemon's start (thesis, Figure 3) ------------------------------------------------------------------------------

-- The start of the daemon, before it takes requests. Waiting transactions become pending, and running ones whose temporary
-- data a crash of PostgreSQL took, until the primary's log tells. Returns how many are pending.
CREATE FUNCTION psp.make_pending() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM psp.temp_alive) THEN
        -- The thesis aborts them. But here a crash may also take back what the commit request has written, or even that the
        -- transaction was committed. What the primary's log does not know is aborted.
        UPDATE psp.transactions SET status = 'pending', changed_at = clock_timestamp() WHERE status = 'running';
        INSERT INTO psp.temp_alive DEFAULT VALUES;
    END IF;
    PERFORM psp.forget_statistics();
    UPDATE psp.transactions SET status = 'pending', changed_at = clock_timestamp() WHERE status = 'waiting';
    RETURN (SELECT count(*) FROM psp.transactions WHERE status = 'pending');
END $$;

-- A pending (or waiting) transaction that the primary has committed; its rows are applied like those of any other
-- semi-primary, by the same transaction. (One that is aborted, or was lost on the way: psp.abort.)
CREATE FUNCTION psp.resolve(tx uuid, decided_t bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.transactions SET status = 'committed', global_t = decided_t, changed_at = clock_timestamp()
     WHERE tx_id = tx AND status IN ('pending', 'waiting')
$$;
