-- psp schema join --schema-from: the jobs, with their tables by name.
SELECT j.change, j.statement_n, j.state = 'done' AS is_done, CASE WHEN c.oid IS NOT NULL THEN format('%I.%I', n.nspname, c.relname) END AS relation, j.index_name::text
  FROM psp.jobs j LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace) ON c.oid = j.relation
 ORDER BY j.change, j.statement_n
