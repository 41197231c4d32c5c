-- What the apply worker writes has a replication origin, by which consumers of logical decoding tell it from what was written here
-- (docs/change-data-capture.md). Origins belong to the whole server: each database has its own.

CREATE FUNCTION psp.origin() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('psp_%s', d.oid) FROM pg_database d WHERE d.datname = current_database()
$$;

-- Superusers may, and roles to which a service has given it.
CREATE FUNCTION psp.may_use_origins() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE'))
      FROM pg_proc p
     WHERE p.pronamespace = 'pg_catalog'::regnamespace
       AND p.proname IN ('pg_replication_origin_oid', 'pg_replication_origin_create', 'pg_replication_origin_session_setup',
                         'pg_replication_origin_session_is_setup')
$$;

-- Called when the apply worker has connected. wal_level changes with a restart only, which ends the session.
CREATE FUNCTION psp.take_origin() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('wal_level') <> 'logical' OR NOT psp.may_use_origins() THEN
        RETURN;
    ELSIF pg_replication_origin_session_is_setup() THEN
        RETURN;
    END IF;
    IF pg_replication_origin_oid(psp.origin()) IS NULL THEN
        PERFORM pg_replication_origin_create(psp.origin());
    END IF;
    -- An origin is one session's. That of a daemon that was killed may wait for a lock, and would not end before it has it.
    PERFORM pg_terminate_backend(a.pid, 5000) FROM pg_stat_activity a
      WHERE a.application_name LIKE 'psp apply worker%' AND a.datname = current_database() AND a.pid <> pg_backend_pid();
    PERFORM pg_replication_origin_session_setup(psp.origin());
END $$;
