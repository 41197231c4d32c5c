-- Where the rows of a table are: itself, or the partitions that are not partitioned.
SELECT n.nspname::text, c.relname::text
  FROM (SELECT %(table)s::regclass::oid UNION SELECT t.relid FROM pg_catalog.pg_partition_tree(%(table)s::regclass) t) t(relation)
  JOIN pg_catalog.pg_class c ON c.oid = t.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' ORDER BY c.oid
