-- The captured tables' columns in image order, and how their values get there: as they are (binary), by a cast to text, or
-- by the output function, since a cast of a user's type may be a user's function (sql/native/install/capture.sql.j2).
WITH RECURSIVE base(oid, base) AS (  -- a domain's base type, any other type itself
    SELECT oid, oid FROM pg_catalog.pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT d.oid, b.base FROM base b JOIN pg_catalog.pg_type d ON d.typbasetype = b.oid AND d.typtype = 'd'
)
SELECT t.schema_name, t.table_name, array_agg(a.attname::text ORDER BY c.ordinality) AS names,
       array_agg(CASE WHEN c.value ->> 'encoding' <> 'text' THEN 'binary'
                      WHEN b.base >= 16384 THEN 'output' ELSE 'text' END ORDER BY c.ordinality) AS forms
  FROM psp.tables t CROSS JOIN LATERAL jsonb_array_elements(t.columns) WITH ORDINALITY c
  JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema_name
  JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = t.table_name
  JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = c.value ->> 'name'
  JOIN base b ON b.oid = a.atttypid
 GROUP BY t.table_id ORDER BY t.table_id
