-- What schema changes must not touch (sql/semi_primary/install/ddl_guard.sql): T_persistent, T_temp and the views of all modes.
CREATE VIEW psp.captured_relations AS
SELECT c.oid AS relation, o.table_id
  FROM (SELECT t.schema_name, n.name, t.table_id
          FROM psp.converted_tables t CROSS JOIN LATERAL (VALUES (t.persistent), (t.temp), (t.table_name)) n(name)
        UNION ALL
        SELECT m.variant_schema, t.table_name, t.table_id
          FROM psp.converted_tables t JOIN psp.variant_schemas m USING (schema_name)) o
  JOIN pg_namespace s ON s.nspname = o.schema_name
  JOIN pg_class c ON c.relnamespace = s.oid AND c.relname = o.name;
