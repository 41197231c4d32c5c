-- What is the same for all columns. Applied after schema.sql, in the same transaction.

GRANT SELECT ON psp_mrv.columns TO PUBLIC;  -- of those that have USAGE: table owners, and who has rights on a view

CREATE SCHEMA psp_mrv_view;  -- what views call; nobody but the tables' owners has USAGE

-- A place on the ring read backwards in binary: 0, 1/2, 1/4, 3/4, 1/8 … (van der Corput), so that records which are added
-- one after the other leave arcs of nearly equal length, however many there are.
CREATE FUNCTION psp_mrv.mirror(n integer) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN reverse(n::bit(16)::text)::bit(16)::integer;

-- Where record number i (from 0) stands on the part of the ring that begins at `first`.
CREATE FUNCTION psp_mrv.place(i integer, first integer, places integer) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN first + (psp_mrv.mirror(i)::bigint * places / @RING_PLACES@)::integer;

-- The sum of records of a bigint; 22003 if it is none.
CREATE AGGREGATE psp_mrv.sum(bigint) (SFUNC = pg_catalog.int8pl, STYPE = bigint, PARALLEL = SAFE, COMBINEFUNC = pg_catalog.int8pl);

CREATE FUNCTION psp_mrv.records_table(id integer) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $psp$
DECLARE
    name text := (SELECT records_table FROM psp_mrv.columns WHERE column_id = id);
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('there is no MRV number %s', id);
    END IF;
    RETURN name;
END $psp$;

CREATE FUNCTION psp_mrv.adjust(column_id integer, key text[], change integer) RETURNS psp_mrv.adjusted
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $psp$
DECLARE
    result psp_mrv.adjusted;
BEGIN
    EXECUTE format('SELECT (f).* FROM psp_mrv.%I($1, $2) f', psp_mrv.records_table(column_id) || '_adjust')
       INTO result USING key, change;
    RETURN result;
END $psp$;

CREATE FUNCTION psp_mrv.balance(column_id integer, key text[], strategy text) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $psp$
DECLARE
    written integer;
BEGIN
    EXECUTE format('SELECT psp_mrv.%I($1, $2)', psp_mrv.records_table(column_id) || '_balance')
       INTO written USING key, strategy;
    RETURN written;
END $psp$;

CREATE FUNCTION psp_mrv.value_state(column_id integer, key text[]) RETURNS psp_mrv.value_state
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $psp$
DECLARE
    result psp_mrv.value_state;
BEGIN
    EXECUTE format('SELECT (f).* FROM psp_mrv.%I($1) f', psp_mrv.records_table(column_id) || '_value_state')
       INTO result USING key;
    RETURN result;
END $psp$;

CREATE FUNCTION psp_mrv.split_keys(column_id integer) RETURNS SETOF text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $psp$
BEGIN
    RETURN QUERY EXECUTE format('SELECT * FROM psp_mrv.%I()', psp_mrv.records_table(column_id) || '_split_keys');
END $psp$;

CREATE FUNCTION psp_mrv.report(column_id integer, key text[], commits integer, aborts integer,
                               response_ms double precision DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO psp_mrv.outcomes (column_id, key, commits, aborts, response_ms) VALUES ($1, $2, $3, $4, $5);
END;

-- mrv: 'table.column', if it is the only one of that name, or 'schema.table.column'.
CREATE FUNCTION psp_mrv.report(mrv text, key text[], commits integer, aborts integer,
                               response_ms double precision DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $psp$
#variable_conflict use_variable
DECLARE
    ids integer[] := ARRAY(SELECT c.column_id FROM psp_mrv.columns c
                            WHERE mrv IN (c.table_name || '.' || c.column_name,
                                          c.schema_name || '.' || c.table_name || '.' || c.column_name));
BEGIN
    IF cardinality(ids) <> 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('there is %s MRV %L', CASE cardinality(ids) WHEN 0 THEN 'no' ELSE 'more than one' END, mrv),
            HINT = 'Name it as in psp mrv list: schema.table.column.';
    END IF;
    INSERT INTO psp_mrv.outcomes (column_id, key, commits, aborts, response_ms)
    VALUES (ids[1], key, commits, aborts, response_ms);
END $psp$;

-- How many sessions wait for rows of MRVs now. Each of them waits for, or holds, a tuple lock: the first in the queue holds it
-- and waits for the transaction that has changed the row. The true number may be larger: after a commit another session may
-- be quicker, and then the first one waits for that session's transaction without a lock that names the row.
CREATE FUNCTION psp_mrv.lock_waits(OUT column_id integer, OUT key text[], OUT waiters integer) RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $psp$
#variable_conflict use_column
DECLARE
    waited record;
BEGIN
    FOR waited IN
        SELECT c.column_id, c.records_table, l.relation = r.records AS in_records,
               format('(%s,%s)', l.page, l.tuple)::tid AS place, count(*)::integer AS waiters
          FROM psp_mrv.columns c
          CROSS JOIN LATERAL (SELECT to_regclass(format('psp_mrv.%I', c.records_table)) AS records,
                                     to_regclass(format('%I.%I', c.schema_name, c.base_table)) AS base) r
          JOIN pg_locks l ON l.relation IN (r.records, r.base)
         WHERE l.locktype = 'tuple' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         GROUP BY 1, 2, 3, 4
    LOOP
        column_id := waited.column_id;
        waiters := waited.waiters;
        EXECUTE format('SELECT psp_mrv.%I($1, $2)', waited.records_table || '_key_at')
           INTO key USING waited.in_records, waited.place;
        IF key IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $psp$;
