-- Held as long as the session lives; a second daemon on the same database is refused.
DO $$ BEGIN
    IF NOT pg_try_advisory_lock(hashtextextended('psp-semi-primary', 0)) THEN
        RAISE EXCEPTION 'another psp-semi-primary serves this database';
    END IF;
END $$
