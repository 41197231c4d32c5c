-- PostgreSQL checks a deferrable unique constraint by a trigger of its own, at the end of the statement or at COMMIT. The check
-- waits for other transactions that have taken the same value and are not committed yet. ENABLE ALWAYS: the apply worker, which
-- is in the replica role, must wait for them, too. Otherwise a local transaction could pass its own check before the other
-- server's row arrives, and tell the primary afterwards that it has seen that row.
-- Run when the capture triggers are on the tables; unique_checks_plain.sql takes it back.
DO $$
DECLARE
    unique_check record;
BEGIN
    FOR unique_check IN
        SELECT t.tgrelid::pg_catalog.regclass AS relation, t.tgname AS name
          FROM pg_catalog.pg_trigger t
         WHERE t.tgfoid = 'pg_catalog.unique_key_recheck'::pg_catalog.regproc
           AND EXISTS (SELECT FROM pg_catalog.pg_trigger c JOIN pg_catalog.pg_proc f ON f.oid = c.tgfoid
                        WHERE c.tgrelid = t.tgrelid AND f.pronamespace = 'psp'::pg_catalog.regnamespace)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER %I', unique_check.relation, unique_check.name);
    END LOOP;
END $$;
