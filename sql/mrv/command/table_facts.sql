-- Everything about a table that `psp mrv create` must know, as one JSON document. $1: its OID; names come quoted.
WITH t AS (SELECT c.*, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(table)s::oid)
SELECT json_build_object(
    'schema', t.nspname, 'name', t.relname, 'kind', t.relkind, 'persistence', t.relpersistence,
    'owner', pg_get_userbyid(t.relowner), 'row_security', t.relrowsecurity OR EXISTS (SELECT FROM pg_policy WHERE polrelid = t.oid),
    'inherits', EXISTS (SELECT FROM pg_inherits WHERE t.oid IN (inhrelid, inhparent)),
    'comment', obj_description(t.oid, 'pg_class'),
    'published', EXISTS (SELECT FROM pg_publication_tables p WHERE (p.schemaname, p.tablename) = (t.nspname, t.relname)),
    'columns', (SELECT json_agg(json_build_object(
        'name', a.attname, 'number', a.attnum, 'type', format_type(a.atttypid, a.atttypmod), 'type_name', y.typname,
        'base_type', CASE y.typtype WHEN 'd' THEN 'domain' ELSE y.typname END, 'modifier', a.atttypmod,
        'default', CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
        'identity', a.attidentity, 'generated', a.attgenerated <> '',
        'sequence', CASE WHEN a.attidentity <> '' THEN pg_get_serial_sequence(format('%%I.%%I', t.nspname, t.relname), a.attname) END,
        'collation', CASE WHEN a.attcollation NOT IN (0, y.typcollation) THEN
                     (SELECT format('%%I.%%I', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
                       WHERE l.oid = a.attcollation) END,
        'comment', col_description(t.oid, a.attnum)) ORDER BY a.attnum)
        FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
       WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped),
    -- The primary key's columns in order, with the equality operator of each.
    'key', (SELECT json_agg(json_build_object('number', k.number,
                   'equal', format('OPERATOR(%%I.%%s)', n.nspname, o.oprname)) ORDER BY k.place)
              FROM pg_index i
              CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY k (number, class, place)
              JOIN pg_opclass c ON c.oid = k.class
              JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amopstrategy = 3
                            AND (m.amoplefttype, m.amoprighttype) = (c.opcintype, c.opcintype)
              JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
             WHERE i.indrelid = t.oid AND i.indisprimary AND NOT EXISTS (
                   SELECT FROM pg_constraint x WHERE x.conindid = i.indexrelid AND x.contype = 'p' AND x.condeferrable)),
    'checks', (SELECT json_agg(json_build_object('oid', x.oid::bigint, 'name', x.conname, 'columns', x.conkey,
                      'expression', pg_get_expr(x.conbin, x.conrelid), 'valid', x.convalidated))
                 FROM pg_constraint x WHERE x.conrelid = t.oid AND x.contype = 'c'),
    'triggers', (SELECT json_agg(json_build_object('name', g.tgname, 'columns', g.tgattr::int2[],
                        'on_update', g.tgtype & 16 <> 0, 'on_truncate', g.tgtype & 32 <> 0) ORDER BY g.tgname)
                   FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid
                  WHERE g.tgrelid = t.oid AND NOT g.tgisinternal AND f.pronamespace IS DISTINCT FROM to_regnamespace('psp')),
    -- Objects that would follow the table to its new name or depend on a column's value: class, object, column, text. Indexes
    -- of expressions depend on the table as a whole besides, without a meaning unless they name its whole row.
    'dependents', (SELECT json_agg(DISTINCT jsonb_build_object('class', p.classid::regclass::text, 'oid', p.objid::bigint,
                          'column', p.refobjsubid, 'text', pg_describe_object(p.classid, p.objid, p.objsubid),
                          'own_default', d.adnum IS NOT DISTINCT FROM p.refobjsubid AND d.oid IS NOT NULL,
                          'view', (SELECT w.ev_class::regclass::text FROM pg_rewrite w WHERE w.oid = p.objid AND p.classid = 'pg_rewrite'::regclass)))
                     FROM pg_depend p LEFT JOIN pg_attrdef d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid
                    WHERE p.refclassid = 'pg_class'::regclass AND p.refobjid = t.oid AND p.deptype <> 'i'
                      AND NOT (p.classid = 'pg_rewrite'::regclass AND EXISTS (SELECT FROM pg_rewrite w WHERE w.oid = p.objid AND w.ev_class = t.oid))
                      -- psp's own functions and triggers, which it makes again.
                      AND NOT EXISTS (SELECT FROM pg_proc f LEFT JOIN pg_trigger g ON g.tgfoid = f.oid
                                       WHERE f.pronamespace = to_regnamespace('psp')
                                         AND (p.classid, p.objid) IN (('pg_proc'::regclass, f.oid), ('pg_trigger'::regclass, g.oid)))
                      -- NOT NULL, which is a constraint since PostgreSQL 18, goes along with its column.
                      AND NOT EXISTS (SELECT FROM pg_constraint x
                                       WHERE (p.classid, p.objid, x.contype) = ('pg_constraint'::regclass, x.oid, 'n'))
                      AND NOT (p.refobjsubid = 0 AND p.classid IN ('pg_class'::regclass, 'pg_constraint'::regclass) AND coalesce(
                              (SELECT concat(i.indexprs, i.indpred) FROM pg_index i WHERE i.indexrelid = p.objid AND p.classid = 'pg_class'::regclass),
                              (SELECT concat(x.conbin) FROM pg_constraint x WHERE x.oid = p.objid AND p.classid = 'pg_constraint'::regclass),
                              ':varattno 0 ') NOT LIKE '%%:varattno 0 %%')
                       OR p.refclassid = 'pg_type'::regclass AND p.refobjid = t.reltype AND p.deptype = 'n'),
    'grants', (SELECT json_agg(json_build_object('column', g.name, 'grantee', CASE g.grantee WHEN 0 THEN NULL ELSE pg_get_userbyid(g.grantee) END,
                      'privilege', g.privilege_type, 'grantable', g.is_grantable))
                 FROM (SELECT NULL::name AS name, e.* FROM aclexplode(coalesce(t.relacl, acldefault('r', t.relowner))) e
                       UNION ALL
                       SELECT a.attname, e.* FROM pg_attribute a, aclexplode(a.attacl) e WHERE a.attrelid = t.oid AND NOT a.attisdropped) g)
) FROM t
