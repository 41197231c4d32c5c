-- About how many rows there are; counted only when nobody has ever analyzed the table.
SELECT CASE WHEN reltuples > 0 THEN reltuples::int8 ELSE (SELECT count(*) FROM psp.data) END
FROM pg_class
WHERE oid = 'psp.data'::regclass
