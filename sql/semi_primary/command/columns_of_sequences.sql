-- The columns of numbers that tell how far strided sequences are: they own them, or have them in their default.
WITH RECURSIVE feeds AS (
    SELECT d.objid AS sequence, d.refobjid AS relation, d.refobjsubid AS number FROM pg_catalog.pg_depend d
     WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
    UNION
    SELECT d.refobjid, f.adrelid, f.adnum FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_attrdef f ON f.oid = d.objid
     WHERE d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
), numbers(type) AS (  -- and domains over them, over domains
    SELECT y.oid FROM pg_catalog.pg_type y WHERE y.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
    UNION ALL
    SELECT y.oid FROM numbers n JOIN pg_catalog.pg_type y ON y.typbasetype = n.type
)
SELECT DISTINCT q.schema_name, q.sequence_name, tn.nspname::text, t.relname::text, a.attname::text
  FROM psp.sequences q JOIN pg_catalog.pg_namespace sn ON sn.nspname = q.schema_name
  JOIN pg_catalog.pg_class s ON s.relnamespace = sn.oid AND s.relname = q.sequence_name
  JOIN feeds f ON f.sequence = s.oid
  JOIN pg_catalog.pg_attribute fa ON fa.attrelid = f.relation AND fa.attnum = f.number
  JOIN pg_catalog.pg_class t ON t.oid = coalesce(pg_partition_root(f.relation), f.relation) AND t.relkind IN ('r', 'p')
  JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attname = fa.attname
  JOIN numbers y ON y.type = a.atttypid
 WHERE a.attgenerated = ''
