-- Checks of deferrable unique constraints that sql/native/install/create_capture.sql has enabled in the replica role, too, are as
-- PostgreSQL makes them again. Run while psp's triggers are still on the tables.
DO $$
DECLARE
    unique_check record;
BEGIN
    FOR unique_check IN
        SELECT t.tgrelid::pg_catalog.regclass AS relation, t.tgname AS name
          FROM pg_catalog.pg_trigger t
         WHERE t.tgfoid = 'pg_catalog.unique_key_recheck'::pg_catalog.regproc AND t.tgenabled = 'A'
           AND EXISTS (SELECT FROM pg_catalog.pg_trigger c JOIN pg_catalog.pg_proc f ON f.oid = c.tgfoid
                        WHERE c.tgrelid = t.tgrelid AND f.pronamespace = 'psp'::pg_catalog.regnamespace)
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE ONLY %s ENABLE TRIGGER %I', unique_check.relation, unique_check.name);
    END LOOP;
END $$;
