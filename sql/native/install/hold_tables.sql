-- Before a statement of a schema change: schema changes of other semi-primaries, and writers of the tables that it changes, wait until this transaction
-- has ended, and what they have committed arrives here first. Else a change of a table that is written without a pause would lose
-- (40001) again and again, and so would one of two semi-primaries that change their schemas at the same time. docs/decisions/34.
--
-- Nothing relies on it: a table that a statement changes without telling it by its words is certified without a hold. So it is when the
-- daemon or the primary cannot be reached; COMMIT tells that.

-- Whether a statement of this tag may change a captured table, or locks out its writers: their rows would wait for that lock, too.
CREATE FUNCTION psp.may_hold(tag text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT tag OPERATOR(pg_catalog.~) '^(CREATE|ALTER|DROP) (TABLE|TRIGGER|RULE|POLICY|INDEX|TYPE|DOMAIN|FUNCTION|PROCEDURE|ROUTINE)$'
$$;

-- The kinds of a text's statements, by their first words, between which comments may stand. What stands in a literal or a body may pass for one.
CREATE FUNCTION psp.has_statement(statement text, beginning text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    RETURN psp.without_comments(statement) ~* ('(^|;)\s*(' || beginning || ')\M');
END $$;

-- The captured tables that a text of `role` may change or lock: tables that it names, those of indexes that it drops, and those that
-- rely on types or functions that it names; where something is dropped or gets another type, also the other tables of their foreign keys. Only what belongs to
-- the role counts, and tables to which it may refer or give triggers: PostgreSQL has not looked at its rights yet. None for VALIDATE
-- CONSTRAINT (psp.effort_of_change).
CREATE FUNCTION psp.tables_to_hold(statement text, role name) RETURNS integer[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET standard_conforming_strings = on AS $$
DECLARE
    words  text[];
    named  oid[] := '{}';
    locked oid[] := '{}';  -- of indexes
BEGIN
    IF psp.without_comments(statement) ~* '^alter\s+table\s[^,;]*\svalidate\s+constraint\s[^,;]*$' THEN  -- its writers need not know
        RETURN '{}';
    END IF;
    IF psp.has_statement(statement, 'alter\s+table|drop\s+table|truncate|((create(\s+or\s+replace)?|alter|drop)\s+(constraint\s+)?(trigger|rule|policy))'
                                    '|create\s+(unique\s+)?index(?!\s+concurrently\M)')
       OR psp.has_statement(statement, 'create\s+(unlogged\s+)?table') AND statement ~* '\m(references|partition\s+of)\M' THEN
        named := ARRAY(SELECT r FROM unnest(psp.relations_in(statement)) r JOIN pg_class c ON c.oid = r
                        WHERE pg_has_role(role, c.relowner, 'USAGE') OR has_table_privilege(role, r, 'REFERENCES, TRIGGER, TRUNCATE'));
    END IF;
    IF psp.has_statement(statement, 'drop\s+index(?!\s+concurrently\M)') THEN
        words := psp.words_of(statement);
        SELECT coalesce(array_agg(i.indrelid), '{}'), named || coalesce(array_agg(i.indrelid) FILTER (WHERE i.indisunique), '{}') INTO locked, named
          FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
         WHERE pg_has_role(role, c.relowner, 'USAGE') AND psp.is_named(c.relname, statement, words);
    END IF;
    IF psp.has_statement(statement, '(alter|drop|create\s+or\s+replace)\s+(type|domain|function|procedure|routine)')
       AND statement !~* '\madd\s+value\M' THEN  -- a new label of an enum disturbs nobody
        words := psp.words_of(statement);
        named := named || ARRAY(
            SELECT psp.reliant_relations(o.class, o.oid)
              FROM (SELECT 'pg_type'::regclass, t.oid, t.typname, t.typowner, t.typnamespace FROM pg_type t
                    UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.proname, p.proowner, p.pronamespace FROM pg_proc p)
                   o(class, oid, name, owner, schema)
             WHERE o.oid >= 16384 AND o.schema <> 'psp'::regnamespace
               AND pg_has_role(role, o.owner, 'USAGE') AND psp.is_named(o.name, statement, words));
    END IF;
    IF statement ~* '\m(drop|type)\M' AND psp.has_statement(statement, 'alter|drop') THEN
        named := named || ARRAY(SELECT unnest(ARRAY[f.conrelid, f.confrelid]) FROM pg_constraint f
                                 WHERE f.contype = 'f' AND (f.conrelid = ANY (named) OR f.confrelid = ANY (named)));
    END IF;
    RETURN ARRAY(SELECT DISTINCT r.table_id FROM psp.captured_relations r
                  WHERE r.table_id <> @SCHEMA_HISTORY_ID@ AND r.relation = ANY (named || locked) ORDER BY 1);
END $$;

-- psp.hold_timeout in milliseconds: for how long others wait at most. 0: not at all.
CREATE FUNCTION psp.hold_timeout() RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    value CONSTANT text := coalesce(nullif(current_setting('psp.hold_timeout', true), ''), '5s');
    parts CONSTANT text[] := regexp_match(value, '^\s*(\d{1,7})\s*(ms|s|min)?\s*$');
BEGIN
    IF parts IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('psp: psp.hold_timeout is %L', value),
            HINT = 'Set it to milliseconds, or to a time with its unit: ms, s or min.';
    END IF;
    RETURN least(parts[1]::bigint * CASE parts[2] WHEN 's' THEN 1000 WHEN 'min' THEN 60000 ELSE 1 END, 2000000000);
END $$;

-- The kind of lock for which the apply worker waits until this session's transaction has ended; null: it does not. Then nothing that
-- this session waits for can arrive.
CREATE FUNCTION psp.lock_that_apply_wants() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT min(l.locktype) FROM psp.apply_session s JOIN pg_locks l ON l.pid = s.pid AND NOT l.granted
             WHERE pg_backend_pid() = ANY (pg_blocking_pids(s.pid)));
END $$;

CREATE FUNCTION psp.refuse_behind_another_change() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'serialization_failure',
        MESSAGE = 'psp: a transaction of another semi-primary has arrived, and waits for this one',
        HINT = 'Retry the transaction.';
END $$;

-- Before a schema change: returns when none that has arrived runs here, since both may name the same objects. psp.run_statement has this lock
-- there. It is not kept: the statement may turn out to change temporary objects only.
CREATE FUNCTION psp.wait_for_arriving_change() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF psp.lock_that_apply_wants() IS NOT NULL
       AND EXISTS (SELECT FROM psp.apply_session s JOIN pg_locks l USING (pid)
                    WHERE l.granted AND (l.relation, l.mode) = ('psp.apply_session'::regclass, 'ExclusiveLock')) THEN
        PERFORM psp.refuse_behind_another_change();
    END IF;
    -- (Where exit_on_error is on, an error ends the session, also one in a block. So none is raised without need.)
    IF EXISTS (SELECT FROM pg_locks l WHERE (l.locktype, l.database, l.relation, l.mode) =
                  ('relation', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), 'psp.apply_session'::regclass, 'ExclusiveLock')) THEN
        BEGIN
            LOCK TABLE psp.apply_session IN ROW SHARE MODE;
            RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'psp: a schema change has arrived meanwhile', HINT = 'Retry the transaction.';
        EXCEPTION WHEN serialization_failure THEN
            NULL;
        END;
    END IF;
END $$;

-- Returns when the tables are held, and psp.schema_history, of which each schema change takes the next number; or when that makes no sense any more: under
-- REPEATABLE READ, the snapshot lacks what arrives meanwhile. The lock of psp.schema_history lets one schema change after the
-- other run here, so the daemon has one hold. (An error in the block gives the lock back; psp.write_statement takes it again.)
CREATE FUNCTION psp.hold_tables(statement text, role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    looked       timestamptz := clock_timestamp();
    this_look    timestamptz;
    waited       interval := '0';
    lock_timeout CONSTANT interval := (SELECT nullif(s.setting, '0')::integer * interval '1 ms'  -- null: none
                                         FROM pg_settings s WHERE s.name = 'lock_timeout');
    timeout      CONSTANT integer := psp.hold_timeout();
    request      text;
    wanted       text;
BEGIN
    IF timeout = 0 OR current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    LOCK TABLE psp.schema_history IN SHARE UPDATE EXCLUSIVE MODE;
    request := format('%s %s %s', pg_current_xact_id(), timeout, array_to_string(@SCHEMA_HISTORY_ID@ || psp.tables_to_hold(statement, role), ','));
    LOOP
        wanted := psp.lock_that_apply_wants();
        IF wanted = 'relation' THEN  -- a table that this transaction has locked by an earlier statement; it may yet commit
            RETURN;
        ELSIF wanted IS NOT NULL THEN  -- a row, such as that of another schema change, which has come first
            PERFORM psp.refuse_behind_another_change();
        END IF;
        EXIT WHEN psp.ask_about('hold', convert_to(request, 'UTF8')) <> 'waiting';
        -- A clock that jumps counts for a moment only: the daemon is asked several times a second.
        this_look := clock_timestamp();
        waited := waited + greatest(least(this_look - looked, interval '1 s'), interval '0');
        looked := this_look;
        IF waited > lock_timeout THEN
            RAISE EXCEPTION USING
                ERRCODE = 'lock_not_available',
                MESSAGE = 'psp: canceling statement due to lock timeout',
                DETAIL = 'Another semi-primary changes the schema, or rows of these tables that are committed have not arrived.';
        END IF;
    END LOOP;
EXCEPTION WHEN connection_failure THEN
    RETURN;
END $$;
