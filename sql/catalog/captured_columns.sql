-- The captured tables of a semi-primary, and what their images are made of.
-- names, forms: the columns in image order, and how their values get there: as they are (binary), by a cast to text, or by the
--   output function (psp.image_value)
-- types: the OIDs of the types that an image has for them
-- older: psp.older_images of the table
SELECT t.table_id, t.schema_name, t.table_name, array_agg(f.name::text ORDER BY c.ordinality) AS names,
       array_agg(CASE WHEN c.value ->> 'encoding' <> 'text' THEN 'binary' WHEN f.by_output THEN 'output' ELSE 'text' END
                 ORDER BY c.ordinality) AS forms,
       array_agg((CASE WHEN c.value ->> 'encoding' = 'text' THEN 'text'::regtype ELSE f.type END)::int8 ORDER BY c.ordinality) AS types,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('until_version', i.until_version, 'fields', i.fields)
                                  ORDER BY i.until_version), '[]')
          FROM psp.older_images i WHERE i.table_id = t.table_id) AS older
  FROM psp.tables t CROSS JOIN LATERAL jsonb_array_elements(t.columns) WITH ORDINALITY c
  JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema_name
  JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = t.table_name
  JOIN psp.column_facts f ON f.relation = r.oid AND f.name = c.value ->> 'name'
 GROUP BY t.table_id, r.oid, n.oid ORDER BY t.table_id
