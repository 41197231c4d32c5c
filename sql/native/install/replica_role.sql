-- session_replication_role = replica switches capture off. Only the apply worker may write captured tables in that
-- role: it writes down which session it is. (No setting and no advisory lock: every role could have those.) A pid
-- may come again after a restart of the server, so the server's start is written down, too.
CREATE UNLOGGED TABLE psp.apply_session (
    only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    pid          integer NOT NULL,
    server_start timestamptz NOT NULL
) WITH (fillfactor = 10);

-- ENABLE REPLICA: it does not fire in other sessions. Called for each statement of the apply worker, so it does
-- without a SET clause.
CREATE FUNCTION psp.refuse_replica() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM psp.apply_session s
         WHERE s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
           AND s.server_start OPERATOR(pg_catalog.=) pg_catalog.pg_postmaster_start_time()) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format(
                'psp: %s of %I.%I with session_replication_role = replica is not supported', TG_OP,
                TG_TABLE_SCHEMA, TG_TABLE_NAME),
            DETAIL = 'In this role psp''s triggers do not fire: the change would reach this semi-primary only.',
            HINT = 'SET session_replication_role = origin.';
    END IF;
    RETURN NULL;
END $$;
