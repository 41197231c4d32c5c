-- Secondary unique indexes. pg_get_constraintdef's text is what pg_dump writes, too. A constraint's comment is not the index's.
SELECT i.relname::text AS name, pg_get_indexdef(i.oid) AS index_definition,
       k.conname::text AS constraint_name,
       pg_get_constraintdef(k.oid) AS constraint_definition,
       CASE WHEN k.oid IS NULL THEN obj_description(i.oid, 'pg_class')
            ELSE obj_description(k.oid, 'pg_constraint') END AS comment,
       x.indisreplident AS replica_identity, x.indisclustered AS clustered
FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = x.indexrelid AND k.conrelid = x.indrelid AND k.contype = 'u'
WHERE x.indrelid = %s AND x.indisunique AND NOT x.indisprimary ORDER BY i.relname
