-- Unique and exclusion indexes of the application's tables. user_functions: those of superusers' tables that are called in
-- expressions and predicates, and belong to others.
SELECT f.index::int8 AS oid, f.relation::int8 AS table_oid, f.name, f.primary, f.unique, f.exclusion, f.valid, f.predicate,
       f.nulls_not_distinct, f.deferrable, f.guarded, f.guard_name, f.whole_row,
       ARRAY(SELECT DISTINCT p.oid::regprocedure::text FROM pg_catalog.pg_depend d
             LEFT JOIN pg_catalog.pg_operator o
               ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid
             JOIN pg_catalog.pg_proc p
               ON p.oid = CASE WHEN d.refclassid = 'pg_catalog.pg_proc'::regclass
                               THEN d.refobjid ELSE o.oprcode END
             JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
             WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = f.index AND NOT r.rolsuper
               AND (SELECT t.rolsuper FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles t ON t.oid = c.relowner
                     WHERE c.oid = f.relation)
             ORDER BY 1) AS user_functions
  FROM own_relations r JOIN index_facts f USING (relation)
 WHERE r.kind IN ('r', 'p', 'f')
 ORDER BY f.name
