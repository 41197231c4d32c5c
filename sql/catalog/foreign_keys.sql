-- Foreign keys, those of partitions left out.
SELECT k.conname AS name, k.conrelid::int8 AS table_oid, k.confrelid::int8 AS parent_oid,
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd') AS has_action
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0::oid
ORDER BY k.conname
