-- Foreign keys, those of partitions left out. is_coarse: psp cannot tell by bytes to which row another one refers.
-- is_to_part: it refers to what is unique in one partition only.
SELECT k.conname AS name, k.conrelid::int8 AS table_oid, k.confrelid::int8 AS parent_oid,
       k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd') AS has_action,
       -- (IN: PostgreSQL reads all of them once, and would begin from all types for each foreign key.)
       k.oid IN (SELECT f.foreign_key FROM foreign_key_column_facts f WHERE f.value IS NULL) AS is_coarse,
       EXISTS (SELECT FROM index_facts i JOIN pg_catalog.pg_class c ON c.oid = i.relation
                WHERE i.index = k.conindid AND i.guarded AND c.relispartition) AS is_to_part
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0::oid
ORDER BY k.conname
