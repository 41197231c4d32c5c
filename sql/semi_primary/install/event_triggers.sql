-- The event triggers of the guard, last: schema changes are refused from here on. Only a superuser can make them.
-- ENABLE ALWAYS: in a session with session_replication_role = replica, too.
CREATE EVENT TRIGGER psp_on_ddl_start ON ddl_command_start
    WHEN TAG IN ('CREATE INDEX', 'DROP INDEX', 'CREATE TABLE', 'ALTER TABLE', 'CREATE SUBSCRIPTION', 'CREATE FUNCTION', 'CREATE PROCEDURE', 'CREATE AGGREGATE')
    EXECUTE FUNCTION psp.on_ddl_start();
CREATE EVENT TRIGGER psp_on_ddl ON ddl_command_end EXECUTE FUNCTION psp.on_ddl();
CREATE EVENT TRIGGER psp_on_drop ON sql_drop EXECUTE FUNCTION psp.on_drop();
CREATE EVENT TRIGGER psp_on_rewrite ON table_rewrite EXECUTE FUNCTION psp.on_rewrite();
ALTER EVENT TRIGGER psp_on_ddl_start ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_ddl ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_drop ENABLE ALWAYS;
ALTER EVENT TRIGGER psp_on_rewrite ENABLE ALWAYS;
