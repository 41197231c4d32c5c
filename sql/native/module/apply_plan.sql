-- How psp_apply_* write table $1: its OID, then for each column of the image its number, t if it comes as text, g if a guard depends on it.
SELECT c.oid || ' ' || string_agg(
           a.attnum || CASE WHEN m.value ->> 'encoding' = 'text' THEN 't' ELSE '' END
                    || CASE WHEN a.attnum = ANY (g.referenced) THEN 'g' ELSE '' END, ' ' ORDER BY m.ordinality)
  FROM psp.tables t
  JOIN pg_namespace n ON n.nspname = t.schema_name
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.table_name
 CROSS JOIN LATERAL (SELECT array_agg(r) AS referenced FROM psp.index_facts f CROSS JOIN LATERAL unnest(f.referenced) r
                      WHERE f.relation = c.oid AND f.guarded) g
 CROSS JOIN LATERAL jsonb_array_elements(t.columns) WITH ORDINALITY m
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = m.value ->> 'name' AND NOT a.attisdropped
 WHERE t.table_id = $1::integer
 GROUP BY c.oid
