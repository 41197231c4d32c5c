-- Advisory locks that reach all semi-primaries. Here the lock is one of PostgreSQL's, so that sessions of this server wait for each other;
-- between servers it is a guard, so that of two transactions that hold it at the same time one loses at COMMIT. docs/isolation.md.

-- What certifies only is of no use in a transaction that COMMIT does not certify.
CREATE FUNCTION psp.refuse_read_only(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction',
            MESSAGE = format('psp: %s cannot be used in a read-only transaction', what),
            DETAIL = 'It is certified at COMMIT as what the transaction writes, and a read-only transaction is not certified.';
    END IF;
END $$;

-- The transaction, which writes now if it has not before.
CREATE FUNCTION psp.begin_certified() RETURNS xid8
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    x       CONSTANT xid8 := pg_current_xact_id();
    decided CONSTANT boolean := (SELECT i.decided FROM psp.commit_intent i WHERE i.xid = x);
BEGIN
    IF decided IS NOT FALSE THEN
        PERFORM psp.begin_intent(x, decided);
    END IF;
    RETURN x;
END $$;

-- The locks have two keys: a class of their own, and a hash. Two keys with the same hash wait for each other, and nothing worse. The apply
-- worker takes them, too, before it writes rows of a transaction that had them elsewhere: a local transaction that holds one
-- has not seen these rows, and must not see them until it has ended (it loses at COMMIT); a later one sees them all.
CREATE FUNCTION psp.wait_for_advisory_locks(keys bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key bigint;
BEGIN
    FOREACH key IN ARRAY keys LOOP
        PERFORM pg_advisory_xact_lock(@ADVISORY_LOCK_CLASS@, hashint8(key));
    END LOOP;
END $$;

-- In the replica role nothing is captured: a trigger that calls this has done so where the row was written.
CREATE FUNCTION psp.advisory_xact_lock(key bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        RETURN;
    ELSIF key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'psp: the key of an advisory lock cannot be null';
    END IF;
    PERFORM psp.refuse_read_only('psp.advisory_xact_lock');
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    VALUES (psp.begin_certified(), @ADVISORY_LOCKS_ID@, 'g', record_send(ROW(record_send(ROW(key)))));
    PERFORM psp.wait_for_advisory_locks(ARRAY[key]);
END $$;
