-- Held as long as the session lives; a second daemon on the same database is refused. The session of a daemon that has
-- just ended may live for a moment longer: whoever starts the next one at once must not be refused for it.
DO $$ BEGIN
    SET LOCAL lock_timeout = '5s';
    PERFORM pg_advisory_lock(hashtextextended('psp-semi-primary', 0));
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'another psp-semi-primary serves this database';
END $$
