-- Foreign keys of a table.
SELECT k.conname::text AS name, pg_get_constraintdef(k.oid) AS definition,
       obj_description(k.oid, 'pg_constraint') AS comment
FROM pg_constraint k WHERE k.conrelid = %s AND k.contype = 'f' ORDER BY k.conname
