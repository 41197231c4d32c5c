-- What schema changes must not touch (../common/ddl_guard.sql): T_persistent, T_temp and the views of all modes.
CREATE VIEW psp.captured_names AS
SELECT c.schema_name, n.name
  FROM psp.converted_tables c CROSS JOIN LATERAL (VALUES (c.persistent), (c.temp), (c.table_name)) n(name)
UNION ALL
SELECT m.mode_schema, c.table_name FROM psp.converted_tables c JOIN psp.mode_schemas m USING (schema_name);

CREATE FUNCTION psp.is_captured(relation oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM psp.captured_names n JOIN pg_class c ON c.relname = n.name
                     JOIN pg_namespace s ON s.oid = c.relnamespace AND s.nspname = n.schema_name
                   WHERE c.oid = relation)
$$;
