-- Before a statement that changes captured tables: writers of these tables at other semi-primaries wait until this transaction has
-- ended, and what they have committed arrives here first. Else a change of a table that is written without a pause would lose
-- (40001) again and again. docs/decisions/34.
--
-- Nothing relies on it: a table that a statement changes without telling it by its words is certified without a hold. So it is when the
-- daemon or the primary cannot be reached; COMMIT tells that.

-- The captured tables that a text may change, by its words: tables that it names, those of unique indexes that it drops, and those that
-- rely on types or functions that it names; with CASCADE also tables that refer to these. None where a hold is of no use: a
-- snapshot that is kept for the transaction lacks what arrives meanwhile.
CREATE FUNCTION psp.tables_to_hold(statement text) RETURNS integer[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET standard_conforming_strings = on AS $$
DECLARE
    words CONSTANT text[] := psp.words_of(statement);
    named oid[] := '{}';
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN '{}';
    END IF;
    IF statement ~* '\m(create|alter|drop)\s+((or|replace|unlogged|constraint)\s+)*(table|trigger|rule|policy)\M'
       OR statement ~* '\m(create\s+unique\s+index|truncate)\M' THEN
        named := psp.relations_in(statement);
    END IF;
    IF statement ~* '\mdrop\s+index\M' THEN
        named := named || ARRAY(SELECT i.indrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                                 WHERE i.indisunique AND psp.is_named(c.relname, statement, words));
    END IF;
    IF statement ~* '\m(alter|drop|create\s+or\s+replace)\s+(type|domain|function|procedure|routine)\M'
       AND statement !~* '\madd\s+value\M' THEN  -- a new label of an enum disturbs nobody
        named := named || ARRAY(
            SELECT psp.reliant_relations(o.class, o.oid)
              FROM (SELECT 'pg_type'::regclass, t.oid, t.typname FROM pg_type t
                    UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.proname FROM pg_proc p) o(class, oid, name)
             WHERE o.oid >= 16384 AND psp.is_named(o.name, statement, words));
    END IF;
    RETURN ARRAY(SELECT DISTINCT r.table_id FROM psp.captured_relations r
                  WHERE r.table_id <> @SCHEMA_HISTORY_ID@
                    AND (r.relation = ANY (named)
                         OR statement ~* '\mcascade\M'
                            AND EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = r.relation AND f.confrelid = ANY (named)))
                  ORDER BY 1);
END $$;

-- psp.hold_timeout in milliseconds: for how long others wait at most.
CREATE FUNCTION psp.hold_timeout() RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value CONSTANT text := coalesce(nullif(current_setting('psp.hold_timeout', true), ''), '5000');
BEGIN
    RETURN CASE WHEN value ~ '^\d+$' THEN value::integer ELSE extract(epoch FROM value::interval) * 1000 END;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION USING
        ERRCODE = 'invalid_parameter_value',
        MESSAGE = format('psp: psp.hold_timeout is %L', value),
        HINT = 'Set it to milliseconds, or to a time with its unit: ''10s''.';
END $$;

CREATE FUNCTION psp.hold_tables(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began   CONSTANT timestamptz := clock_timestamp();
    patient CONSTANT interval := (SELECT nullif(s.setting, '0')::integer * interval '1 ms' FROM pg_settings s WHERE s.name = 'lock_timeout');
    tables  CONSTANT integer[] := psp.tables_to_hold(statement);
    request text;
BEGIN
    IF tables = '{}' THEN
        RETURN;
    END IF;
    LOCK TABLE psp.schema_history IN SHARE UPDATE EXCLUSIVE MODE;  -- as psp.write_statement does: the daemon knows one hold
    request := format('%s %s %s', pg_current_xact_id(), psp.hold_timeout(), array_to_string(tables, ','));
    WHILE psp.ask_about('hold', convert_to(request, 'UTF8')) = 'waiting' LOOP
        -- What this transaction waits for comes after what waits for this transaction, such as another schema change.
        IF EXISTS (SELECT FROM psp.apply_session s WHERE pg_backend_pid() = ANY (pg_blocking_pids(s.pid))) THEN
            RAISE EXCEPTION USING
                ERRCODE = 'serialization_failure',
                MESSAGE = 'psp: a transaction of another semi-primary has arrived, and waits for this one',
                HINT = 'Retry the transaction.';
        END IF;
        IF clock_timestamp() - began > patient THEN
            RAISE EXCEPTION USING
                ERRCODE = 'lock_not_available',
                MESSAGE = 'psp: canceling statement due to lock timeout',
                DETAIL = 'Another semi-primary changes the schema, or rows of these tables that are committed have not arrived.';
        END IF;
    END LOOP;
EXCEPTION WHEN connection_failure THEN
    RETURN;
END $$;
