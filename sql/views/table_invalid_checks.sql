-- CHECKs that are NOT VALID.
SELECT k.conname::text AS name, pg_get_expr(k.conbin, k.conrelid) AS expression,
       pg_get_constraintdef(k.oid) AS definition, obj_description(k.oid, 'pg_constraint') AS comment
FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'c' AND NOT k.convalidated ORDER BY k.conname
