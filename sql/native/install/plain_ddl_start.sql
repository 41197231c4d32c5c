-- The event triggers of plain_ddl.sql. They need everything else but the guard's, which refuse what stands here.
-- Not ENABLE ALWAYS: in the replica role, statements stay here. In the order of their names each comes where it must: before or after the guard's.
-- These read PG_CONTEXT. Only superusers may set that.
ALTER FUNCTION psp.set_triggers_aside(text) SET lc_messages = 'C';
ALTER FUNCTION psp.on_statement_start() SET lc_messages = 'C';
ALTER FUNCTION psp.on_statement_drop() SET lc_messages = 'C';
ALTER FUNCTION psp.on_statement_end() SET lc_messages = 'C';
CREATE EVENT TRIGGER psp_note_settings ON ddl_command_start EXECUTE FUNCTION psp.note_settings();
SELECT psp.install_note_statement();
CREATE EVENT TRIGGER psp_on_begin ON ddl_command_start EXECUTE FUNCTION psp.on_statement_start();
CREATE EVENT TRIGGER psp_on_dropped ON sql_drop EXECUTE FUNCTION psp.on_statement_drop();
CREATE EVENT TRIGGER psp_on_end ON ddl_command_end EXECUTE FUNCTION psp.on_statement_end();
CREATE EVENT TRIGGER psp_on_ended ON ddl_command_end EXECUTE FUNCTION psp.record_statement();
