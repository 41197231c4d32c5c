-- psp schema check, psp primary verify, psp cluster verify: what may be local at an SP, by name and definition. What must be alike is told by
-- schema_state.sql. So psp's own is left out, and captured tables with what their definition has; and what is part of an extension.
WITH members AS (
    SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
), schemas AS (
    SELECT n.* FROM pg_namespace n
     WHERE n.nspname NOT IN ('psp', 'information_schema') AND n.nspname !~ '^pg_'
       AND ('pg_namespace'::regclass, n.oid) NOT IN (SELECT classid, objid FROM members)
), objects AS MATERIALIZED (
    SELECT d.classid, d.objid, d.refobjid AS schema FROM pg_depend d JOIN schemas n ON n.oid = d.refobjid
     WHERE d.refclassid = 'pg_namespace'::regclass AND d.objsubid = 0 AND d.deptype = 'n'
       AND (d.classid, d.objid) NOT IN (SELECT classid, objid FROM members)
), owners AS MATERIALIZED (
    SELECT s.classid, s.objid, s.refobjid FROM pg_shdepend s
     WHERE s.refclassid = 'pg_authid'::regclass AND s.deptype = 'o'
       AND s.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
), relations AS MATERIALIZED (
    SELECT c.*, format('%s.%I', c.relnamespace::regnamespace, c.relname) AS label,
           c.oid IN (SELECT r.relation FROM psp.captured_relations r) AS is_captured
      FROM objects o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
), local_relations AS (
    SELECT r.* FROM relations r
     WHERE NOT r.is_captured AND r.oid NOT IN (SELECT q.relation FROM psp.sequences q) AND r.relkind <> 'c'
), acls(label, acl, owner, columns) AS (
    SELECT r.label, coalesce(r.relacl, acldefault((CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", r.relowner)), r.relowner, '' FROM relations r
    UNION ALL SELECT r.label, a.attacl, r.relowner, format('(%I)', a.attname)
                FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid WHERE a.attacl IS NOT NULL
    UNION ALL SELECT format('schema %I', n.nspname), coalesce(n.nspacl, acldefault('n', n.nspowner)), n.nspowner, '' FROM schemas n
    UNION ALL SELECT format('function %s', p.oid::regprocedure), coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner, ''
                FROM objects o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
    UNION ALL SELECT format('type %s', t.oid::regtype), coalesce(t.typacl, acldefault('T', t.typowner)), t.typowner, ''
                FROM objects o JOIN pg_type t ON o.classid = 'pg_type'::regclass AND t.oid = o.objid
), rights AS (  -- those of the owner and of psp's roles are not told
    SELECT a.label, format('%s: %s', x.grantee, string_agg(x.privilege_type || a.columns || CASE WHEN x.is_grantable THEN '*' ELSE '' END,
                                                           ', ' ORDER BY x.privilege_type, a.columns)) AS rights
      FROM acls a
     CROSS JOIN LATERAL (SELECT e.*, CASE e.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(e.grantee)::text END FROM aclexplode(a.acl) e)
                        x(grantor, grantee_oid, privilege_type, is_grantable, grantee)
     WHERE x.grantee_oid <> a.owner AND x.grantee NOT IN ('psp_functions', 'psp_semi_primary')
     GROUP BY a.label, x.grantee
)
SELECT 'schema' AS kind, n.nspname::text AS name, 'owner ' || pg_get_userbyid(n.nspowner) AS definition FROM schemas n
UNION ALL
SELECT CASE r.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table'
                      ELSE 'local table' END,
       r.label,
       concat_ws(' ', 'owner ' || pg_get_userbyid(r.relowner),
                 CASE WHEN r.relkind IN ('v', 'm') THEN pg_get_viewdef(r.oid)
                      ELSE (SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)
                              FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped) END)
  FROM local_relations r
UNION ALL
SELECT 'index', format('%s.%I', x.relnamespace::regnamespace, x.relname), pg_get_indexdef(x.oid)
  FROM relations r JOIN pg_index i ON i.indrelid = r.oid JOIN pg_class x ON x.oid = i.indexrelid
 WHERE NOT (r.is_captured AND (i.indisunique OR i.indisexclusion)) AND NOT x.relispartition
UNION ALL
SELECT CASE WHEN p.prokind IN ('f', 'p') THEN 'function' ELSE 'aggregate' END, p.oid::regprocedure::text,
       concat_ws(' ', 'owner ' || pg_get_userbyid(p.proowner), CASE WHEN p.prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) END)
  FROM objects o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
 WHERE psp.relied_on_by(o.classid, o.objid) IS NULL
UNION ALL
SELECT CASE t.typtype WHEN 'd' THEN 'domain' ELSE 'type' END, t.oid::regtype::text,
       concat_ws(' ', 'owner ' || pg_get_userbyid(t.typowner), t.typtype,
                 (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
  FROM pg_type t
 WHERE t.typnamespace IN (SELECT n.oid FROM schemas n) AND t.typtype IN ('c', 'd', 'e', 'r')
   AND (t.typrelid = 0 OR EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
   AND ('pg_type'::regclass, t.oid) NOT IN (SELECT classid, objid FROM members)
   AND psp.relied_on_by('pg_type'::regclass, t.oid) IS NULL
UNION ALL  -- of what captured tables have and rely on
SELECT 'owner of sequence', r.label, pg_get_userbyid(r.relowner)
  FROM relations r WHERE r.oid IN (SELECT q.relation FROM psp.sequences q)
UNION ALL
SELECT 'owner of function', p.oid::regprocedure::text, pg_get_userbyid(p.proowner)
  FROM objects o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
 WHERE psp.relied_on_by(o.classid, o.objid) IS NOT NULL
UNION ALL
SELECT 'owner of type', t.oid::regtype::text, pg_get_userbyid(t.typowner)
  FROM objects o JOIN pg_type t ON o.classid = 'pg_type'::regclass AND t.oid = o.objid
 WHERE psp.relied_on_by(o.classid, o.objid) IS NOT NULL
UNION ALL
SELECT 'policy', format('%s: %I', r.label, p.polname),
       concat_ws(' ', p.polcmd, p.polpermissive,
                 (SELECT string_agg(pg_get_userbyid(u), ', ' ORDER BY pg_get_userbyid(u)) FROM unnest(p.polroles) u WHERE u <> 0),
                 pg_get_expr(p.polqual, p.polrelid), 'check ' || pg_get_expr(p.polwithcheck, p.polrelid))
  FROM relations r JOIN pg_policy p ON p.polrelid = r.oid
UNION ALL
SELECT 'trigger', format('%s: %I', r.label, t.tgname), pg_get_triggerdef(t.oid)
  FROM local_relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
UNION ALL
SELECT 'event trigger', e.evtname, e.evtfoid::regproc::text FROM pg_event_trigger e
 WHERE ('pg_event_trigger'::regclass, e.oid) NOT IN (SELECT classid, objid FROM members)
   AND e.evtfoid NOT IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'psp'::regnamespace)
UNION ALL  -- operators, casts, text search, statistics, foreign servers: by name and owner. What the first superuser owns has none here.
-- Extensions are told by catalog/surroundings.sql.
SELECT i.type, i.identity, concat('owner ' || (SELECT pg_get_userbyid(s.refobjid) FROM owners s WHERE (s.classid, s.objid) = (o.classid, o.objid)))
  FROM (SELECT classid, objid FROM objects 
                WHERE classid NOT IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_extension'::regclass)
        UNION ALL SELECT 'pg_cast'::regclass, c.oid FROM pg_cast c
        UNION ALL SELECT 'pg_foreign_server'::regclass, s.oid FROM pg_foreign_server s
        UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, w.oid FROM pg_foreign_data_wrapper w
        UNION ALL SELECT 'pg_language'::regclass, l.oid FROM pg_language l
        UNION ALL SELECT 'pg_publication'::regclass, p.oid FROM pg_publication p) o
 CROSS JOIN LATERAL pg_identify_object(o.classid, o.objid, 0) i
 WHERE o.objid >= 16384 AND (o.classid, o.objid) NOT IN (SELECT classid, objid FROM members)
UNION ALL
SELECT 'rights on', a.label, coalesce((SELECT string_agg(r.rights, '; ' ORDER BY r.rights) FROM rights r WHERE r.label = a.label), 'nobody')
  FROM (SELECT DISTINCT label FROM acls) a
UNION ALL
SELECT 'default privileges of', concat_ws(' ', pg_get_userbyid(d.defaclrole), 'in ' || nullif(d.defaclnamespace, 0)::regnamespace, d.defaclobjtype),
       array_to_string(ARRAY(SELECT unnest(d.defaclacl)::text ORDER BY 1), ', ')
  FROM pg_default_acl d
