-- Unique and exclusion indexes.
--   referenced        the columns in keys, expressions and predicate: an index, or the constraint that made it, depends on each
--                     column that it uses
--   whole_row         an expression or the predicate takes the row as one value: that is variable 0
--   calls_users_code  expressions or predicate depend on a function, an operator (a cast is a function) or a domain;
--                     PostgreSQL's own leave no dependency
--   guarded           it is a secondary unique index or an exclusion constraint's, and takes a guard: of all rows of the captured table, or of a
--                     partition's. A part of a parent's index takes none
--   guard_name        by which the captured table knows it
SELECT i.indexrelid AS index, i.indrelid AS relation, ic.relname AS name, i.indisprimary AS primary, i.indisunique AS unique,
       i.indisexclusion AS exclusion, i.indisvalid AS valid, pg_get_expr(i.indpred, i.indrelid) AS predicate,
       i.indnullsnotdistinct AS nulls_not_distinct, NOT i.indimmediate AS deferrable,
       NOT i.indisprimary AND NOT ic.relispartition AS guarded,
       CASE WHEN ic.relnamespace = (SELECT w.relnamespace FROM pg_catalog.pg_class w WHERE w.oid = coalesce(pg_partition_root(i.indrelid), i.indrelid))
            THEN ic.relname::text
            ELSE format('%s.%I', ic.relnamespace::regnamespace, ic.relname) END COLLATE "C" AS guard_name,
       ARRAY(SELECT k::int FROM unnest(i.indkey[:i.indnkeyatts - 1]) k WHERE k > 0
             UNION
             SELECT d.refobjsubid FROM pg_catalog.pg_depend d
              WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
                AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = i.indrelid AND d.refobjsubid > 0
              ORDER BY 1) AS referenced,
       coalesce(i.indexprs::text ~ ':varattno 0 ', false) OR coalesce(i.indpred::text ~ ':varattno 0 ', false) AS whole_row,
       (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
       AND EXISTS (SELECT FROM pg_catalog.pg_depend d
                    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
                      AND d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass,
                                           'pg_catalog.pg_type'::regclass)) AS calls_users_code
  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
 WHERE i.indisunique OR i.indisexclusion
