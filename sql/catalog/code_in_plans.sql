-- Of these tables (qualified names) those for which planning a SELECT may run code of users. PostgreSQL computes calls with constant arguments that stand in
-- indexes, statistics and partition keys of a table and of its partitions, and it takes functions in SQL apart. CHECKs are not looked at:
-- who reads switches constraint_exclusion off. The expressions' functions are told by pg_depend, which lacks PostgreSQL's own.
WITH RECURSIVE tree(root, relation) AS (
    SELECT t, to_regclass(t)::oid FROM unnest(%(tables)s::text[]) t
    UNION ALL
    SELECT tree.root, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.relation
), places(root, class, object) AS (
    SELECT t.root, 'pg_catalog.pg_class'::regclass, i.indexrelid
      FROM tree t JOIN pg_catalog.pg_index i ON i.indrelid = t.relation WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    UNION ALL
    SELECT t.root, 'pg_catalog.pg_statistic_ext'::regclass, s.oid
      FROM tree t JOIN pg_catalog.pg_statistic_ext s ON s.stxrelid = t.relation WHERE s.stxexprs IS NOT NULL
    UNION ALL
    SELECT t.root, 'pg_catalog.pg_class'::regclass, p.partrelid
      FROM tree t JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.relation WHERE p.partexprs IS NOT NULL
), used(root, class, object) AS (
    SELECT DISTINCT p.root, d.refclassid, d.refobjid
      FROM places p JOIN pg_catalog.pg_depend d ON (d.classid, d.objid, d.objsubid) = (p.class, p.object, 0)
), called(root, function) AS (
    SELECT root, object FROM used WHERE class = 'pg_catalog.pg_proc'::regclass
    UNION
    SELECT u.root, o.oprcode FROM used u JOIN pg_catalog.pg_operator o ON o.oid = u.object
     WHERE u.class = 'pg_catalog.pg_operator'::regclass
)
-- A superuser's function is not code of users, if nobody else can tell what the names in it mean.
SELECT DISTINCT f.root
  FROM called f JOIN pg_catalog.pg_proc p ON p.oid = f.function
  JOIN pg_catalog.pg_language l ON l.oid = p.prolang JOIN pg_catalog.pg_roles o ON o.oid = p.proowner
 WHERE p.oid >= 16384
   AND NOT (o.rolsuper AND (l.lanname IN ('c', 'internal') OR p.prosqlbody IS NOT NULL
                            OR EXISTS (SELECT FROM unnest(p.proconfig) s WHERE starts_with(s, 'search_path='))))
UNION
SELECT root FROM tree WHERE relation IS NULL -- nobody else sees it yet
