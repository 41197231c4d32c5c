-- What would run with the rights of this session's superuser when it updates these columns of a table that is somebody else's: triggers, CHECKs (also of
-- the columns' domains), indexes, generated columns and statistics with functions that belong to no superuser.
WITH RECURSIVE types(type) AS (
    SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = %(table)s::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT part.type
      FROM types s JOIN pg_catalog.pg_type t ON t.oid = s.type
     CROSS JOIN LATERAL (
        SELECT t.typbasetype UNION ALL SELECT t.typelem
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0
     ) part(type)
     WHERE part.type <> 0
), places(class, object) AS (
    SELECT 'pg_catalog.pg_class'::regclass, i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = %(table)s::oid
    UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::regclass, s.oid FROM pg_catalog.pg_statistic_ext s WHERE s.stxrelid = %(table)s::oid
    UNION ALL SELECT 'pg_catalog.pg_trigger'::regclass, g.oid FROM pg_catalog.pg_trigger g
               WHERE g.tgrelid = %(table)s::oid AND NOT g.tgisinternal AND g.tgtype & 16 <> 0
                 AND (g.tgattr::text = '' OR EXISTS (SELECT FROM pg_catalog.pg_attribute a
                                                      WHERE a.attrelid = g.tgrelid AND a.attnum = ANY (g.tgattr) AND a.attname = ANY (%(columns)s)))
    UNION ALL SELECT 'pg_catalog.pg_constraint'::regclass, c.oid FROM pg_catalog.pg_constraint c
               WHERE c.contype = 'c' AND (c.conrelid = %(table)s::oid OR c.contypid IN (SELECT type FROM types))
    UNION ALL SELECT 'pg_catalog.pg_attrdef'::regclass, d.oid
                FROM pg_catalog.pg_attrdef d JOIN pg_catalog.pg_attribute a ON (a.attrelid, a.attnum) = (d.adrelid, d.adnum)
               WHERE d.adrelid = %(table)s::oid AND a.attgenerated <> ''
), calls(class, object, function) AS (
    SELECT p.class, p.object, coalesce(o.oprcode, d.refobjid)
      FROM places p JOIN pg_catalog.pg_depend d ON (d.classid, d.objid) = (p.class, p.object)
      LEFT JOIN pg_catalog.pg_operator o ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid
     WHERE d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)
)
SELECT pg_catalog.pg_describe_object(c.class, c.object, 0), f.oid::pg_catalog.regprocedure::text
  FROM calls c JOIN pg_catalog.pg_proc f ON f.oid = c.function JOIN pg_catalog.pg_roles o ON o.oid = f.proowner
 WHERE f.oid >= 16384 AND NOT o.rolsuper
   AND (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user)
 ORDER BY 1, 2
