-- The Multi-Record Values (sql/mrv) among the captured tables: where each column's values stand, and how their outcomes are
-- reported. report_sql takes arrays: commits, aborts, and one for each column of the value's key. Only for databases that
-- have a schema psp_mrv.
WITH RECURSIVE base(oid, base) AS (  -- a domain's base type, any other type itself
    SELECT oid, oid FROM pg_type WHERE typtype <> 'd'
    UNION ALL
    SELECT d.oid, b.base FROM base b JOIN pg_type d ON d.typbasetype = b.oid AND d.typtype = 'd'
), keys AS (
    SELECT c.column_id, k.n, e.oid AS element, e.typarray, t.type_name
      FROM psp_mrv.columns c
     CROSS JOIN LATERAL unnest(c.key_columns) WITH ORDINALITY k (name, n)
      JOIN LATERAL unnest(c.key_types) WITH ORDINALITY t (type_name, n) USING (n)
      JOIN pg_attribute a ON a.attrelid = to_regclass(format('%I.%I', c.schema_name, c.base_table)) AND a.attname = k.name
      JOIN base b ON b.oid = a.atttypid
      JOIN pg_type e ON e.oid = b.base
), key_texts AS (
    SELECT column_id, count(*) AS size,
           string_agg(element::text, ',' ORDER BY n) AS oids,
           string_agg(format('$%s::%s', n + 2, format_type(typarray, -1)), ', ' ORDER BY n) AS arrays,
           string_agg('k' || n, ', ' ORDER BY n) AS aliases,
           string_agg(format('u.k%s::%s::text', n, type_name), ', ' ORDER BY n) AS texts
      FROM keys GROUP BY column_id
)
SELECT c.column_id, r.table_id AS records_table_id, b.table_id AS base_table_id, s.ordinality - 1 AS split_place,
       k.size AS key_size, k.oids AS key_oids,
       format('INSERT INTO psp_mrv.outcomes (column_id, key, commits, aborts) SELECT %s, ARRAY[%s], u.commits, u.aborts'
              ' FROM unnest($1::integer[], $2::integer[], %s) AS u (commits, aborts, %s)',
              c.column_id, k.texts, k.arrays, k.aliases) AS report_sql
  FROM psp_mrv.columns c
  JOIN key_texts k USING (column_id)
  JOIN psp.tables r ON (r.schema_name, r.table_name) = ('psp_mrv', c.records_table)
  JOIN psp.tables b ON (b.schema_name, b.table_name) = (c.schema_name, c.base_table)
  JOIN LATERAL jsonb_array_elements(b.columns) WITH ORDINALITY s ON s.value ->> 'name' = c.split_column
