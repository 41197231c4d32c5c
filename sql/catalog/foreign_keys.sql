-- Foreign keys, those of partitions left out. is_coarse: psp cannot tell by bytes to which row another one refers.
SELECT k.conname AS name, k.conrelid::int8 AS table_oid, k.confrelid::int8 AS parent_oid,
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd') AS has_action,
       EXISTS (SELECT FROM foreign_key_column_facts f WHERE f.foreign_key = k.oid AND f.value IS NULL) AS is_coarse
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0::oid
ORDER BY k.conname
