-- Sequences, and which column owns each.
SELECT r.relation::int8 AS oid, r.schema, r.name, s.seqstart AS start, s.seqmin AS minimum,
       s.seqmax AS maximum, s.seqincrement AS increment, s.seqcycle AS cycle,
       (SELECT ARRAY[tn.nspname, t.relname, a.attname]::text[] FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = r.relation
          AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')) AS owner,
       COALESCE((SELECT CASE a.atttypid WHEN 'pg_catalog.int2'::regtype THEN 16 WHEN 'pg_catalog.int4'::regtype THEN 32 END
        FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = r.relation
          AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')), 64) AS owner_bits
FROM own_relations r JOIN pg_catalog.pg_sequence s ON s.seqrelid = r.relation
WHERE r.persistence <> 't'
ORDER BY r.schema, r.name
