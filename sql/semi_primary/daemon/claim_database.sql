-- Held as long as the session lives; a second daemon on the same database is refused. The session of a daemon that has
-- just ended may live for a moment longer: one that is started at once must not be refused for it.
-- Any role can take an advisory lock. A session whose role could not be a daemon's is ended.
DO $$
DECLARE
    key CONSTANT bigint := hashtextextended('psp-semi-primary', 0);
BEGIN
    SET LOCAL lock_timeout = '5s';
    BEGIN
        PERFORM pg_terminate_backend(l.pid)
           FROM pg_locks l JOIN pg_stat_activity a USING (pid)
          WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = a.datid AND a.datname = current_database()
            AND (l.classid::bigint << 32 | l.objid::bigint) = key
            AND NOT has_table_privilege(a.usesysid, to_regclass('psp.identity'), 'UPDATE');
    EXCEPTION WHEN insufficient_privilege THEN  -- no pg_signal_backend: it is waited for
    END;
    PERFORM pg_advisory_lock(key);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'another psp-semi-primary serves this database' USING ERRCODE = 'PSP01';
END $$
