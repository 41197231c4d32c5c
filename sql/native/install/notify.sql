-- psp.notify: a NOTIFY that reaches the clients of all semi-primaries. docs/notifications.md, docs/decisions/86.
--
-- A notification is a row in the write-set of the transaction that sends it, and a trigger that fires everywhere tells PostgreSQL. Rows are used again,
-- so that nothing has to be removed from the stream or from any server.
CREATE TABLE psp.notifications (
    sp_id   integer,            -- of the semi-primary that sends it
    slot    integer,            -- below @NOTIFICATION_SLOTS@
    number  bigint NOT NULL,    -- of its notifications, so that one that says the same again is another image
    channel text NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (sp_id, slot)
) WITH (fillfactor = 70);

-- Transactions that run at the same time have different slots, unless as many notifications as there are slots come between them.
CREATE SEQUENCE psp.notification_numbers;

-- Whether PostgreSQL's queue has room. A session that has listened, and sleeps in a transaction, lets nothing out of it, and a full queue ends COMMIT
-- with an error: here when the transaction is decided, elsewhere for the whole stream.
CREATE FUNCTION psp.may_notify() RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notification_queue_usage() < 0.5
$$;

-- Sends a notification with this transaction. Like NOTIFY, it is given at COMMIT, and to nobody if that fails. Errors: those of pg_notify (22023: the
-- channel's name or the payload is too long), 54000 if a half of PostgreSQL's queue is full here.
CREATE FUNCTION psp.notify(channel text, payload text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    drawn CONSTANT bigint := nextval('psp.notification_numbers');
BEGIN
    IF NOT psp.may_notify() THEN
        RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded', MESSAGE = 'psp: PostgreSQL''s queue of notifications is half full',
            DETAIL = 'A session of this server has run LISTEN and stays in a transaction.', HINT = 'End that session''s transaction.';
    END IF;
    INSERT INTO psp.notifications AS n (sp_id, slot, number, channel, payload)
    SELECT i.sp_id, drawn % @NOTIFICATION_SLOTS@, drawn, coalesce(notify.channel, ''), coalesce(notify.payload, '') FROM psp.identity i
        ON CONFLICT ON CONSTRAINT notifications_pkey
        DO UPDATE SET number = excluded.number, channel = excluded.channel, payload = excluded.payload;
END $$;

-- At the sender and at the others. The rows of a copy were told long ago. What finds no room is dropped and counted: the stream goes on.
CREATE FUNCTION psp.tell_notification() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT i.joining FROM psp.identity i) THEN
        RETURN NULL;
    ELSIF current_setting('session_replication_role') <> 'replica' OR psp.may_notify() THEN
        PERFORM pg_notify(NEW.channel, NEW.payload);
    ELSE
        UPDATE psp.dropped_notifications SET dropped = dropped + 1, last_at = clock_timestamp();
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_tell_notification AFTER INSERT OR UPDATE ON psp.notifications
    FOR EACH ROW EXECUTE FUNCTION psp.tell_notification();
CREATE TRIGGER psp_check_statement_writer BEFORE INSERT OR UPDATE OR DELETE ON psp.notifications
    FOR EACH STATEMENT EXECUTE FUNCTION psp.check_statement_writer();
ALTER TABLE psp.notifications ENABLE ALWAYS TRIGGER psp_tell_notification, ENABLE ALWAYS TRIGGER psp_check_statement_writer;

SELECT psp.give('{TABLE psp.notifications}', 'psp_functions');
SELECT psp.define_table('psp.notifications', @NOTIFICATIONS_ID@, '{}');

-- As psp.capture_requests.
CREATE FUNCTION psp.capture_notifications() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT psp.install_capture(ARRAY[psp.define_table('psp.notifications', @NOTIFICATIONS_ID@, '{}') || '{"search_path": "pg_catalog, pg_temp"}'])
$$;
