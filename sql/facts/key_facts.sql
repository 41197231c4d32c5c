-- The statement that gives a table without a primary key one: psp_key, of type uuid. Null where a partitioned table cannot have it:
-- its primary key must contain the columns that it is partitioned by; and where a column has that name.
SELECT c.oid AS relation,
       CASE WHEN k.is_possible
                 AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'psp_key')
            THEN format('ALTER TABLE %I.%I ADD COLUMN psp_key pg_catalog.uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid(), '
                        'ADD PRIMARY KEY (%s)', n.nspname, c.relname, concat_ws(', ', 'psp_key', k.columns)) END AS add_key
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN LATERAL (
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY p.place) AS columns,
           coalesce(bool_and(a.attnotnull IS TRUE), true) AS is_possible  -- an expression is no column
      FROM pg_catalog.pg_partitioned_table t
     CROSS JOIN LATERAL unnest(t.partattrs::int2[]) WITH ORDINALITY p(number, place)
      LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.number
     WHERE t.partrelid = c.oid) k
 WHERE c.relkind IN ('r', 'p')
