-- Requests that are served once, however often and at however many semi-primaries a client asks: docs/once.md, docs/decisions/77.
--
-- A request is a row, in the write-set of the transaction that serves it. Two semi-primaries that serve it at once write the same key, and
-- one of them loses; here the second waits for the first, as for any unique value. The key itself is stored nowhere.
CREATE TABLE psp.requests (
    id           uuid PRIMARY KEY,      -- psp.request_id, or psp.generation_id
    generation   integer NOT NULL,      -- the newest when it was asked for. (The second column: the primary's psp.request_generation finds it there.)
    role         text NOT NULL,         -- whose request it is
    fingerprint  uuid NOT NULL,         -- psp.request_hash
    failed       boolean NOT NULL DEFAULT false,
    completed_at timestamptz,           -- null: the transaction that serves it has stored no result yet
    result       jsonb
) WITH (fillfactor = 70);

-- Requests become old by generations, so that no clock decides what is still known. A row of its own begins each, and goes with the stream.
-- A request is known for as long as @REQUEST_GENERATIONS@ generations have not begun after its own; then all semi-primaries and the primary forget
-- it, each by itself. How long the newest one has lasted here is added up while the daemon runs.
CREATE TABLE psp.request_age (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    generation integer NOT NULL DEFAULT 0,
    age_s      float8 NOT NULL DEFAULT 0,
    is_due     boolean NOT NULL DEFAULT false   -- the next one may begin
);
INSERT INTO psp.request_age DEFAULT VALUES;

CREATE FUNCTION psp.generation_id(generation integer) RETURNS uuid
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('00000000-0000-0000-0000-%s', lpad(to_hex(generation), 12, '0'))::uuid
$$;

CREATE FUNCTION psp.newest_generation() RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce((SELECT r.generation FROM psp.requests r WHERE r.id <= '00000000-0000-0000-0000-ffffffffffff' ORDER BY r.id DESC LIMIT 1), 0);
END
$$;

-- Begins the next generation if it is due, in the transaction of a request that is done: nobody waits for it. If it has been begun elsewhere at the
-- same time, one of the two transactions loses.
CREATE FUNCTION psp.begin_generation() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    next CONSTANT integer := (SELECT a.generation + 1 FROM psp.request_age a WHERE a.is_due);
BEGIN
    IF next IS NULL OR next <> psp.newest_generation() + 1 THEN  -- it has begun elsewhere since then
        RETURN;
    END IF;
    PERFORM FROM psp.request_age a WHERE a.is_due AND a.generation = next - 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO psp.requests AS r (id, generation, role, fingerprint) VALUES (psp.generation_id(next), next, '', psp.generation_id(next))
        ON CONFLICT ON CONSTRAINT requests_pkey DO NOTHING;
    IF FOUND THEN
        UPDATE psp.requests r SET completed_at = clock_timestamp() WHERE r.id = psp.generation_id(next);  -- which is captured
        UPDATE psp.request_age SET generation = next, age_s = 0, is_due = false;
    END IF;
END $$;

-- The daemon calls this now and then, while nothing is missing here. passed_s: since the last time; retention_s: for how long requests are known at
-- least. Returns the newest generation; null: a transaction that begins the next one is in the way, so the time counts later.
CREATE FUNCTION psp.count_age(passed_s float8, retention_s float8) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    newest CONSTANT integer := psp.newest_generation();
    ages   psp.request_age;
BEGIN
    SELECT * INTO ages FROM psp.request_age FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF ages.generation <> newest THEN
        UPDATE psp.request_age SET generation = newest, age_s = 0, is_due = false;
    ELSIF NOT ages.is_due THEN  -- else it stays as it is: under REPEATABLE READ who begins the next one loses by a change
        UPDATE psp.request_age SET age_s = ages.age_s + passed_s, is_due = ages.age_s + passed_s >= retention_s / @REQUEST_GENERATIONS@;
    END IF;
    RETURN newest;
END $$;

-- Removes what has expired among the next requests after an id, a bounded number. Returns the last id that it has looked at; null: it was the last.
CREATE FUNCTION psp.remove_old_requests(after uuid) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    piece  CONSTANT integer := 5000;
    oldest CONSTANT integer := psp.newest_generation() - @REQUEST_GENERATIONS@;
    last   CONSTANT uuid := (SELECT r.id FROM psp.requests r WHERE r.id > remove_old_requests.after ORDER BY r.id OFFSET piece - 1 LIMIT 1);
BEGIN
    DELETE FROM psp.requests r WHERE r.id = ANY (ARRAY(
        SELECT o.id FROM psp.requests o
         WHERE o.id > remove_old_requests.after AND (o.id <= last OR last IS NULL) AND o.generation < oldest
           FOR UPDATE SKIP LOCKED));
    RETURN last;
END $$;

CREATE FUNCTION psp.request_hash(text text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN encode(substr(sha256(convert_to($1, 'UTF8')), 1, 16), 'hex')::uuid;
END $$;

-- Roles share no keys.
CREATE FUNCTION psp.request_id(role name, key text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN psp.request_hash(format('%s %s %s', length(role), role, key));
END $$;

-- Where psp.request hands over what is asked, and gets the answer. Nobody may give `caller`, so its default is true.
CREATE VIEW psp.new_request AS
SELECT NULL::name AS caller, NULL::text AS key, NULL::text AS fingerprint, NULL::name AS of_role, NULL::interval AS wait,
       NULL::text AS state, NULL::boolean AS failed, NULL::timestamptz AS completed_at, NULL::jsonb AS result WHERE false;
ALTER VIEW psp.new_request ALTER COLUMN caller SET DEFAULT current_user;

-- Raises what is wrong with a request. role: whose it is.
CREATE FUNCTION psp.check_request(asked psp.new_request, role name) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF coalesce(asked.key, '') = '' OR octet_length(asked.key) > 1000 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'psp: the key of a request has 1 to 1,000 bytes',
            HINT = 'Let the client that begins the request make one, a UUID for example, and send the same with each attempt.';
    ELSIF asked.fingerprint IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'psp: the fingerprint of a request cannot be null',
            HINT = 'Give what the request asks for, its body for example, or leave the parameter out.';
    ELSIF NOT pg_has_role(asked.caller, role, 'USAGE') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('psp: permission denied for requests of role %I', role),
            HINT = format('GRANT %I TO %I, or name a role that has been granted.', role, asked.caller);
    END IF;
END $$;

-- The request that the transaction serves, if its result is not stored yet. Rows without a result are the transaction's own: no other is
-- visible, since COMMIT refuses them. (Who changes the setting finds no other row either.)
CREATE FUNCTION psp.open_request() RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    asked_id CONSTANT uuid := nullif(current_setting('psp.open_request', true), '');
BEGIN
    RETURN CASE WHEN asked_id IS NOT NULL THEN (SELECT r.id FROM psp.requests r WHERE r.id = asked_id AND r.completed_at IS NULL) END;
END $$;

-- Makes the request the transaction's own; false: another transaction has it. A savepoint could be rolled back with the request and without
-- the memory of who asked, so a request is none of a savepoint's: the row's xmin tells.
CREATE FUNCTION psp.take_request(id uuid, role name, fingerprint uuid, generation integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    oldest   CONSTANT integer := generation - @REQUEST_GENERATIONS@;
    taken_by xid;
BEGIN
    INSERT INTO psp.requests AS r (id, generation, role, fingerprint)
    VALUES (take_request.id, take_request.generation, take_request.role, take_request.fingerprint)
        ON CONFLICT ON CONSTRAINT requests_pkey DO NOTHING RETURNING r.xmin INTO taken_by;
    IF NOT FOUND AND EXISTS (SELECT FROM psp.requests r WHERE r.id = take_request.id AND r.generation < oldest) THEN
        UPDATE psp.requests r
           SET generation = take_request.generation, fingerprint = take_request.fingerprint, failed = false, completed_at = NULL, result = NULL
         WHERE r.id = take_request.id AND r.generation < oldest RETURNING r.xmin INTO taken_by;
    END IF;
    IF taken_by <> pg_current_xact_id()::xid THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state', MESSAGE = 'psp: a request cannot begin behind a savepoint',
            DETAIL = 'ROLLBACK TO SAVEPOINT would forget it, and the transaction could go on.',
            HINT = 'Call psp.request before the first SAVEPOINT of the transaction (a nested transaction of a library, or a block with EXCEPTION, is one).';
    ELSIF taken_by IS NOT NULL THEN
        PERFORM set_config('psp.open_request', id::text, true);
    END IF;
    RETURN taken_by IS NOT NULL;
END $$;

CREATE FUNCTION psp.take_request_within(wait interval, id uuid, role name, fingerprint uuid, generation integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    lock_timeout CONSTANT text := current_setting('lock_timeout');
    is_taken     boolean;
BEGIN
    PERFORM set_config('lock_timeout', greatest(1, least(extract(epoch FROM wait) * 1000, 86400000))::integer::text, true);
    is_taken := psp.take_request(id, role, fingerprint, generation);
    PERFORM set_config('lock_timeout', lock_timeout, true);
    RETURN is_taken;
END $$;

-- The functions above that have no search_path of their own run under this one's.
CREATE FUNCTION psp.write_request() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The setting is the session's: a function that runs as another role does not follow it.
    setting     CONSTANT text := nullif(current_setting('psp.request_role', true), '');
    role        CONSTANT name := coalesce(NEW.of_role, CASE WHEN setting IS NOT NULL AND NEW.caller = psp.role_of_statement() THEN setting END, NEW.caller);
    asked_id    CONSTANT uuid := psp.request_id(role, NEW.key);
    fingerprint CONSTANT uuid := psp.request_hash(NEW.fingerprint);
    newest      CONSTANT integer := psp.newest_generation();
    stored      psp.requests;
BEGIN
    PERFORM psp.check_request(NEW, role);
    LOOP
        SELECT * INTO stored FROM psp.requests r WHERE r.id = asked_id AND r.generation >= newest - @REQUEST_GENERATIONS@;
        EXIT WHEN FOUND;
        IF psp.open_request() IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'psp: the transaction serves another request',
                HINT = 'Call psp.request_done first.';
        ELSIF NEW.wait IS NULL AND psp.take_request(asked_id, role, fingerprint, newest)
           OR NEW.wait IS NOT NULL AND psp.take_request_within(NEW.wait, asked_id, role, fingerprint, newest) THEN
            NEW.state := 'new';
            RETURN NEW;
        END IF;
    END LOOP;
    IF stored.fingerprint <> fingerprint THEN
        RAISE EXCEPTION USING ERRCODE = 'PS422', MESSAGE = 'psp: the key of this request was used for another one',
            DETAIL = 'The fingerprints differ: what is asked for is not what was asked for first.',
            HINT = 'Use a new key for each request, and the same one for each attempt of it.';
    ELSIF stored.completed_at IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = 'psp: the transaction serves this request already',
            HINT = 'Call psp.request once in a transaction.';
    END IF;
    NEW.state := 'known';
    NEW.failed := stored.failed;
    NEW.completed_at := stored.completed_at;
    NEW.result := stored.result;
    RETURN NEW;
END $$;

CREATE TRIGGER psp_write_request INSTEAD OF INSERT ON psp.new_request
    FOR EACH ROW EXECUTE FUNCTION psp.write_request();

-- Asks for a request, in the transaction that serves it. state 'new': serve it, and store the result by psp.request_done before COMMIT;
-- 'known': it was served, the rest is its answer. wait: how long at most for a transaction that serves it here (55P03 then). of_role: whose
-- request it is, if not the caller's or that of the setting psp.request_role; the caller must have it.
CREATE FUNCTION psp.request(key text, fingerprint text DEFAULT '', wait interval DEFAULT NULL, of_role name DEFAULT NULL,
                            OUT state text, OUT failed boolean, OUT completed_at timestamptz, OUT result jsonb) RETURNS record
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO psp.new_request AS n (key, fingerprint, wait, of_role) VALUES (request.key, request.fingerprint, request.wait, request.of_role)
    RETURNING n.state, n.failed, n.completed_at, n.result INTO request.state, request.failed, request.completed_at, request.result;
END $$;

CREATE FUNCTION psp.complete_request(result jsonb, failed boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    open_id CONSTANT uuid := psp.open_request();
BEGIN
    UPDATE psp.requests r SET completed_at = clock_timestamp(), failed = complete_request.failed, result = complete_request.result
     WHERE r.id = open_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'psp: the transaction serves no request',
            HINT = 'Call psp.request before, in the same transaction. If it answers "known", there is nothing to do.';
    END IF;
    PERFORM psp.begin_generation();
END $$;

-- Stores the result of the request that the transaction serves. Both become durable with its COMMIT, or neither.
CREATE FUNCTION psp.request_done(result jsonb DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    SELECT psp.complete_request(result, false)
$$;

-- Stores, in a transaction of its own, that a request has failed: what was rolled back cannot say so. Returns what is stored under the key then:
-- another attempt may have been faster. sqlstate: with what it failed; errors after which the request can be served again are refused.
CREATE FUNCTION psp.request_failed(key text, fingerprint text DEFAULT '', result jsonb DEFAULT NULL, sqlstate text DEFAULT NULL,
                                   wait interval DEFAULT NULL, of_role name DEFAULT NULL, OUT failed boolean, OUT completed_at timestamptz, OUT stored jsonb) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked record;
BEGIN
    IF upper(left(sqlstate, 2)) IN ('08', '25', '2D', '40', '53', '54', '55', '57', '58', 'XX') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('psp: error %s does not tell how the request ends', sqlstate),
            DETAIL = 'Errors of its class pass by, or leave open what has become of a COMMIT.', HINT = 'Ask for the request again.';
    END IF;
    SELECT * INTO asked FROM psp.request(request_failed.key, request_failed.fingerprint, request_failed.wait, request_failed.of_role);
    IF asked.state = 'new' THEN
        PERFORM psp.complete_request(request_failed.result, true);
        SELECT * INTO asked FROM psp.request(request_failed.key, request_failed.fingerprint, of_role => request_failed.of_role);
    END IF;
    failed := asked.failed;
    completed_at := asked.completed_at;
    stored := asked.result;
END $$;

-- At COMMIT: a request that has been asked for has its result. (It fires where the transaction runs, and for no row that arrives.)
CREATE FUNCTION psp.check_request_is_done() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM psp.requests r WHERE r.id = NEW.id AND r.completed_at IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_termination', MESSAGE = 'psp: the transaction serves a request and stores no result of it',
            HINT = 'SELECT psp.request_done(RESULT) before COMMIT. (SET CONSTRAINTS ALL IMMEDIATE looks at once: leave it until then.)';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER psp_check_request_is_done AFTER INSERT OR UPDATE ON psp.requests DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.completed_at IS NULL) EXECUTE FUNCTION psp.check_request_is_done();

CREATE TRIGGER psp_check_statement_writer BEFORE INSERT OR UPDATE OR DELETE ON psp.requests
    FOR EACH STATEMENT EXECUTE FUNCTION psp.check_statement_writer();
ALTER TABLE psp.requests ENABLE ALWAYS TRIGGER psp_check_statement_writer;

SELECT psp.give('{TABLE psp.requests}', 'psp_functions');
SELECT psp.define_table('psp.requests', @REQUESTS_ID@, '{}');

-- When it is known what captures rows here. The owner has no search_path of its own.
CREATE FUNCTION psp.capture_requests() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT psp.install_capture(ARRAY[psp.define_table('psp.requests', @REQUESTS_ID@, '{}') || '{"search_path": "pg_catalog, pg_temp"}'])
$$;
