-- CHECKs, in the order in which PostgreSQL looks at them.
SELECT k.conname::text AS name, pg_get_expr(k.conbin, k.conrelid) AS expression,
       pg_get_constraintdef(k.oid) AS definition, obj_description(k.oid, 'pg_constraint') AS comment,
       k.convalidated AS valid, coalesce(k.conkey, '{}') AS columns
FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'c' ORDER BY k.conname COLLATE "C"
