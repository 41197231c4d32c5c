-- The columns of a table that COPY writes, and the types as which another database reads their text; no type of users is among these.
--   why_not   what would be lost
SELECT f.name::text, CASE WHEN t.plain >= 16384 THEN 'text' WHEN t.plain = f.type THEN f.type_name ELSE t.plain_type END,
       CASE WHEN t.plain = 'xml'::regtype THEN 'xml, whose text says less than the value' END AS why_not
  FROM psp.column_facts f CROSS JOIN LATERAL (SELECT * FROM psp.type_facts t WHERE t.type = f.type OFFSET 0) t
 WHERE f.relation = %(table)s::regclass AND NOT f.generated
UNION ALL
SELECT a.attname::text, '', 'generated, and in the primary key'
  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
 WHERE i.indrelid = %(table)s::regclass AND i.indisprimary AND a.attgenerated <> ''
