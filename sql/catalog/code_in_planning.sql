-- The owner of a table, if planning a reading of it runs code of users with the rights of a superuser: functions of theirs stand in expressions of
-- its indexes and statistics, or in its partition key. PostgreSQL computes those with constant arguments when it plans. No row: none do.
SELECT o.rolname
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles o ON o.oid = c.relowner
 WHERE c.oid = %s::pg_catalog.regclass AND NOT o.rolsuper
   AND (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
   AND EXISTS (
       SELECT FROM (SELECT c.oid AS relation UNION SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p) t
         CROSS JOIN LATERAL (SELECT concat(i.indexprs::text, i.indpred::text) FROM pg_catalog.pg_index i WHERE i.indrelid = t.relation
                             UNION ALL SELECT s.stxexprs::text FROM pg_catalog.pg_statistic_ext s WHERE s.stxrelid = t.relation
                             UNION ALL SELECT k.partexprs::text FROM pg_catalog.pg_partitioned_table k WHERE k.partrelid = t.relation) e(tree)
         CROSS JOIN LATERAL pg_catalog.regexp_matches(e.tree, E':[a-z]*funcid (\\d+)', 'g') m(found)
        WHERE m.found[1]::pg_catalog.oid >= 16384)
