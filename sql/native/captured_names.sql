-- What schema changes must not touch (../common/ddl_guard.sql): relations with psp's triggers, partitions among them.
CREATE FUNCTION psp.is_captured(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
                   WHERE t.tgrelid = relation AND f.pronamespace = 'psp'::regnamespace)
$$;

CREATE VIEW psp.captured_names AS SELECT schema_name, table_name AS name FROM psp.tables;
