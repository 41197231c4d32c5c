-- What conversion must know of a table (by its OID); Details in schema_tool/psp/schema/views/catalog.py.
SELECT pg_get_userbyid(c.relowner)::text AS owner, c.relrowsecurity AS row_security,
       ARRAY(SELECT r.rulename::text FROM pg_rewrite r WHERE r.ev_class = c.oid) AS rules,
       ARRAY(SELECT DISTINCT coalesce(v.oid::regclass::text, f.oid::regprocedure::text)
             FROM pg_depend d
             LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
             LEFT JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
             LEFT JOIN pg_proc f ON d.classid = 'pg_proc'::regclass AND f.oid = d.objid
             WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)
                    OR (d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype))
               AND coalesce(v.oid, f.oid) IS NOT NULL ORDER BY 1) AS dependents,
       ARRAY(WITH RECURSIVE made_of(type) AS (  -- arrays, domains, ranges, rows of other tables
                 SELECT c.reltype
                 UNION
                 SELECT coalesce(r.reltype, d.objid) FROM made_of m
                 JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = m.type
                     AND (d.classid = 'pg_type'::regclass
                          OR d.classid = 'pg_class'::regclass AND d.objsubid > 0)
                 LEFT JOIN pg_class r ON d.classid = 'pg_class'::regclass AND r.oid = d.objid)
             SELECT format('%%s.%%I', a.attrelid::regclass, a.attname)
             FROM made_of m
             JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = m.type
                 AND d.classid = 'pg_class'::regclass
             JOIN pg_class r ON r.oid = d.objid AND r.relkind IN ('r', 'p', 'm', 'f')
             JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid AND a.attnum > 0
             ORDER BY 1) AS row_columns,
       ARRAY(SELECT p.pubname::text
             FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
             WHERE n.oid = c.relnamespace AND p.tablename = c.relname ORDER BY 1) AS publications,
       ARRAY(SELECT format('%%I on %%s', k.conname, k.conrelid::regclass)
             FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid
             WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confrelid = c.oid AND r.relpersistence <> 'p'
             ORDER BY 1) AS local_keys,
       ARRAY(SELECT t::text FROM unnest(ARRAY[c.relname || '_persistent', c.relname || '_temp']) t
             WHERE octet_length(t) > 63 OR EXISTS (SELECT FROM pg_class o WHERE o.relname = t
                                                      AND o.relnamespace = c.relnamespace)) AS bad_names,
       EXISTS (SELECT FROM pg_depend d
               LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
               JOIN pg_proc f
                 ON f.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
               WHERE f.pronamespace <> 'pg_catalog'::regnamespace AND (d.classid, d.objid) IN (
                   SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.conrelid = c.oid
                   UNION ALL SELECT 'pg_attrdef'::regclass, e.oid FROM pg_attrdef e WHERE e.adrelid = c.oid
                   UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i
                   WHERE i.indrelid = c.oid
               )) AS functions
FROM pg_class c WHERE c.oid = %s
