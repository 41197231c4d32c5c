-- Reading one's own writes at another semi-primary: a token of what a session sees here, and a wait for it there (docs/several-servers.md,
-- docs/decisions/70).

-- The beginning of the history that decided a number, as this semi-primary knows it; '-': it is older than all that are kept.
CREATE FUNCTION psp.history_mark(global_t bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT left(replace(e.history::text, '-', ''), 8) FROM psp.epochs e WHERE e.start_t <= $1 ORDER BY e.place DESC LIMIT 1), '-')
$$;

-- 'psp1.CLUSTER.HISTORY.SP.WATERMARK.NEWEST' of the statement's snapshot: all transactions that it sees are numbered NEWEST at most, and
-- this semi-primary had applied all up to WATERMARK.
CREATE FUNCTION psp.token() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT format('psp1.%s.%s.%s.%s.%s', left(replace(i.cluster_id::text, '-', ''), 8), psp.history_mark(n.newest), i.sp_id, w.watermark, n.newest)
      FROM psp.identity i CROSS JOIN psp.watermark w
     CROSS JOIN LATERAL (SELECT greatest(w.watermark, (SELECT max(a.global_t) FROM psp.applied a)) AS newest) n
$$;

-- The parts of a token of this cluster.
CREATE FUNCTION psp.read_token(token text, OUT history text, OUT sp_id integer, OUT watermark bigint, OUT newest bigint) RETURNS record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(left(token, 200), '^psp1\.([0-9a-f]{8})\.([0-9a-f]{8}|-)\.([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,18})$');
    own   CONSTANT text := (SELECT left(replace(i.cluster_id::text, '-', ''), 8) FROM psp.identity i);
BEGIN
    IF parts IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'psp: this is no token',
            DETAIL = format('It is %L.', left(token, 100)),
            HINT = 'SELECT psp.token() gives one, at the semi-primary whose commits are wanted.';
    ELSIF parts[1] <> own THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'psp: the token is of another cluster',
            DETAIL = format('It is of the cluster whose id begins with %s; this one''s begins with %s.', parts[1], own);
    END IF;
    history := parts[2];
    sp_id := parts[3]::integer;
    watermark := parts[4]::bigint;
    newest := parts[5]::bigint;
END $$;

-- Whether the caller's snapshot has all that the token's had. At the semi-primary that gave it, own commits count that are above W.
CREATE FUNCTION psp.has_seen(of_sp integer, watermark bigint, newest bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT w.watermark >= $3
           OR i.sp_id = $1 AND w.watermark >= $2 AND EXISTS (SELECT FROM psp.applied a WHERE a.global_t = $3)
      FROM psp.watermark w CROSS JOIN psp.identity i
$$;

CREATE FUNCTION psp.check_history(history text, newest bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known CONSTANT text := psp.history_mark(newest);
BEGIN
    IF history <> '-' AND known <> '-' AND history <> known THEN
        RAISE EXCEPTION USING
            ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'psp: what the token saw is not in this cluster any more',
            DETAIL = format('Number %s was decided by a start of psp-primary that the primary of today does not continue.', newest),
            HINT = 'An older primary was taken on purpose (psp schema accept-loss). Read again what is there now.';
    END IF;
END $$;

-- Returns when statements that begin afterwards see all that the token's statement saw. Error 57014 when that takes longer than `timeout`. Without a token there is nothing to wait for.
CREATE FUNCTION psp.wait_for(token text, timeout interval DEFAULT '10 s') RETURNS void
LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted    record;
    looked    timestamptz := clock_timestamp();
    this_look timestamptz;
    waited    interval := '0';
BEGIN
    SELECT * INTO wanted FROM psp.read_token(token);
    WHILE NOT psp.has_seen(wanted.sp_id, wanted.watermark, wanted.newest) LOOP
        -- (Alone in its transaction it may: the next one gets a snapshot of its own.)
        IF current_setting('transaction_isolation') <> 'read committed' AND now() <> statement_timestamp() THEN
            RAISE EXCEPTION USING
                ERRCODE = 'active_sql_transaction',
                MESSAGE = 'psp: the transaction keeps its snapshot, which lacks what the token saw',
                HINT = 'Call psp.wait_for before BEGIN, or take READ COMMITTED.';
        END IF;
        IF waited >= timeout THEN
            RAISE EXCEPTION USING
                ERRCODE = 'query_canceled',
                MESSAGE = 'psp: what the token saw has not arrived in time',
                DETAIL = format('Number %s is wanted, everything up to %s is applied here.', wanted.newest, (SELECT w.watermark FROM psp.watermark w)),
                HINT = 'Ask again, or read at the semi-primary that gave the token. psp.status tells whether this one lags.';
        END IF;
        PERFORM psp.hook_connect();
        IF psp.ask_daemon(format('reach %s', wanted.newest)) = 'reached' AND current_setting('transaction_isolation') <> 'read committed' THEN
            EXIT;
        END IF;
        -- A clock that jumps counts for a moment only: the daemon answers several times a second.
        this_look := clock_timestamp();
        waited := waited + greatest(least(this_look - looked, interval '1 s'), interval '0');
        looked := this_look;
    END LOOP;
    PERFORM psp.check_history(wanted.history, wanted.newest);
END $$;
