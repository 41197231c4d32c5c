-- Schema changes of a running cluster are refused: they would reach one SP only. `psp schema adopt` creates these
-- event triggers last, `psp schema release` drops them first. Temporary and unlogged tables stay local and are allowed.
-- Each mode says what is captured: view psp.captured_relations (captured_relations.sql).

-- What must stay as it is, by OID: a name is no help once it has changed, nor when the object is gone. Captured relations
-- with their unique indexes (each is a guard), constraints, defaults and schemas; psp's functions and triggers.
CREATE TABLE psp.guarded_objects (
    classid oid NOT NULL,  -- as in pg_depend
    objid   oid NOT NULL,
    PRIMARY KEY (classid, objid)
);

CREATE FUNCTION psp.is_guarded(class oid, object oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM psp.guarded_objects WHERE (classid, objid) = (class, object))
$$;

CREATE FUNCTION psp.refuse_ddl(object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = format('psp: %s of %s is not supported while the database is part of a cluster', command, object),
        DETAIL = 'The change would reach this semi-primary only.',
        HINT = 'Release the database with "psp schema release", change it and adopt it again.';
END $$;

-- Rules, triggers and unique indexes are refused as new ones, too, by the relation that they are on.
CREATE FUNCTION psp.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF c.command_tag IN ('ALTER TYPE', 'ALTER DOMAIN')
           OR psp.is_guarded(c.classid, c.objid)
           OR c.command_tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'IMPORT FOREIGN SCHEMA')
              AND EXISTS (SELECT FROM pg_class WHERE oid = c.objid AND relpersistence = 'p' AND relkind IN ('r', 'p'))
           OR psp.is_guarded('pg_class'::regclass, CASE c.classid
                  WHEN 'pg_rewrite'::regclass THEN (SELECT ev_class FROM pg_rewrite WHERE oid = c.objid)
                  WHEN 'pg_trigger'::regclass THEN (SELECT tgrelid FROM pg_trigger WHERE oid = c.objid)
                  WHEN 'pg_class'::regclass THEN (SELECT indrelid FROM pg_index WHERE indexrelid = c.objid AND indisunique)
              END)
        THEN
            PERFORM psp.refuse_ddl(c.object_identity, c.command_tag);
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION psp.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d record;
BEGIN
    FOR d IN SELECT * FROM pg_event_trigger_dropped_objects() o WHERE psp.is_guarded(o.classid, o.objid) LOOP
        PERFORM psp.refuse_ddl(d.object_identity, 'DROP');
    END LOOP;
END $$;

-- Last, so that the guard's own functions are among them.
INSERT INTO psp.guarded_objects
SELECT 'pg_class'::regclass, relation FROM psp.captured_relations
UNION
SELECT 'pg_namespace'::regclass, c.relnamespace FROM psp.captured_relations JOIN pg_class c ON c.oid = relation
UNION
SELECT 'pg_class'::regclass, i.indexrelid FROM psp.captured_relations JOIN pg_index i ON i.indrelid = relation AND i.indisunique
UNION
SELECT 'pg_constraint'::regclass, k.oid FROM psp.captured_relations JOIN pg_constraint k ON k.conrelid = relation
UNION
SELECT 'pg_attrdef'::regclass, d.oid FROM psp.captured_relations JOIN pg_attrdef d ON d.adrelid = relation
UNION
SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
 WHERE f.pronamespace = 'psp'::regnamespace
UNION
SELECT 'pg_proc'::regclass, f.oid FROM pg_proc f
 WHERE f.pronamespace = 'psp'::regnamespace
   AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = f.oid AND e.deptype = 'e');

CREATE EVENT TRIGGER psp_on_ddl ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'IMPORT FOREIGN SCHEMA', 'ALTER TABLE',
                 'CREATE INDEX', 'ALTER INDEX', 'CREATE VIEW', 'ALTER VIEW', 'CREATE TRIGGER', 'ALTER TRIGGER',
                 'CREATE RULE', 'ALTER RULE', 'CREATE FUNCTION', 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER SCHEMA',
                 'ALTER TYPE', 'ALTER DOMAIN')
    EXECUTE FUNCTION psp.on_ddl();
CREATE EVENT TRIGGER psp_on_drop ON sql_drop EXECUTE FUNCTION psp.on_drop();
