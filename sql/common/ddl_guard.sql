-- Schema changes of a running cluster are refused: they would reach one SP only. `psp schema adopt` creates these
-- event triggers last, `psp schema release` drops them first. Temporary and unlogged tables stay local and are allowed.
-- Each mode says what is psp's: function psp.is_captured and view psp.captured_names (captured_names.sql).
CREATE FUNCTION psp.refuse_ddl(object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = format('psp: %s of %s is not supported while the database is part of a cluster', command, object),
        DETAIL = 'The change would reach this semi-primary only.',
        HINT = 'Release the database with "psp schema release", change it and adopt it again.';
END $$;

CREATE FUNCTION psp.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF c.command_tag IN ('ALTER TYPE', 'ALTER DOMAIN') THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        ELSIF c.command_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'IMPORT FOREIGN SCHEMA') THEN
            IF (SELECT relpersistence FROM pg_class WHERE oid = c.objid) = 'p'
               AND (SELECT relkind FROM pg_class WHERE oid = c.objid) IN ('r', 'p') THEN
                PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
            END IF;
        ELSIF c.command_tag = 'CREATE INDEX' THEN
            IF EXISTS (SELECT FROM pg_index WHERE indexrelid = c.objid AND indisunique AND psp.is_captured(indrelid)) THEN
                PERFORM psp.refuse_ddl(c.object_identity, 'CREATE UNIQUE INDEX');
            END IF;
        ELSIF c.command_tag = 'ALTER TABLE' AND psp.is_captured(c.objid) THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        ELSIF c.command_tag = 'ALTER SCHEMA' AND EXISTS (SELECT FROM pg_class
                  WHERE relnamespace = c.objid AND c.classid = 'pg_namespace'::regclass AND psp.is_captured(oid)) THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        ELSIF c.classid = 'pg_rewrite'::regclass
              AND psp.is_captured((SELECT ev_class FROM pg_rewrite WHERE oid = c.objid)) THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        ELSIF c.classid = 'pg_trigger'::regclass
              AND psp.is_captured((SELECT tgrelid FROM pg_trigger WHERE oid = c.objid)) THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION psp.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d record;
BEGIN
    FOR d IN SELECT * FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary LOOP
        IF d.object_type IN ('table', 'view') AND EXISTS (SELECT FROM psp.captured_names n
                WHERE n.schema_name = d.schema_name AND n.name = d.object_name)
           OR d.object_type = 'trigger' AND d.object_name IS NULL AND d.object_identity LIKE 'psp\_%' THEN
            PERFORM psp.refuse_ddl(d.object_identity, 'DROP');
        END IF;
    END LOOP;
END $$;

CREATE EVENT TRIGGER psp_on_ddl ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'IMPORT FOREIGN SCHEMA', 'CREATE INDEX', 'ALTER TABLE',
                 'CREATE TRIGGER', 'ALTER TRIGGER', 'CREATE RULE', 'ALTER RULE', 'ALTER SCHEMA', 'ALTER TYPE',
                 'ALTER DOMAIN')
    EXECUTE FUNCTION psp.on_ddl();
CREATE EVENT TRIGGER psp_on_drop ON sql_drop EXECUTE FUNCTION psp.on_drop();
