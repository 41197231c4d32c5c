-- What a schema change may name or need that belongs to the server, or to the database as a whole, and so is no part of a schema that goes
-- with the stream: psp schema check, psp primary verify, psp cluster verify compare it. In any database, also without psp.
WITH here AS (
    SELECT d.*, to_jsonb(d) AS facts FROM pg_database d WHERE d.datname = current_database()
), keepers AS (
    SELECT n.nspowner AS oid FROM pg_namespace n
     WHERE n.nspname = 'psp'
       AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace o ON o.oid = c.relnamespace
                        WHERE c.relowner = n.nspowner AND o.nspname NOT IN ('psp', 'psp_mrv') AND o.nspname !~ '^pg_')
), roles AS (
    SELECT r.*, EXISTS (SELECT FROM pg_shdepend s
                         WHERE (s.refclassid, s.refobjid) = ('pg_authid'::regclass, r.oid) AND s.dbid = h.oid) AS is_named
      FROM pg_roles r CROSS JOIN here h
     WHERE r.rolname !~ '^pg_' AND r.rolname NOT IN ('psp_functions', 'psp_semi_primary', 'psp_primary')
), shown_roles AS (  -- each server has its own superusers, and its own role that is none and has adopted
    SELECT * FROM roles r WHERE CASE WHEN r.rolsuper THEN r.is_named ELSE r.oid <> ALL (SELECT k.oid FROM keepers k) END
)
SELECT 'role' AS kind, r.rolname::text AS name,
       concat_ws(', ', CASE WHEN r.rolsuper THEN 'superuser' END, CASE WHEN r.rolcreaterole THEN 'createrole' END,
                 CASE WHEN r.rolreplication THEN 'replication' END, CASE WHEN r.rolbypassrls THEN 'bypassrls' END,
                 (SELECT 'member of ' || string_agg(g.rolname, ', ' ORDER BY g.rolname)
                    FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid)) AS definition
  FROM shown_roles r
UNION ALL
SELECT 'changer', r.rolname, '' FROM shown_roles r
 WHERE NOT r.rolsuper AND has_function_privilege(r.oid, to_regprocedure('psp.ddl(text)'), 'EXECUTE')
UNION ALL
SELECT 'rights on', 'the database', string_agg(format('%s: %s', x.grantee, x.rights), '; ' ORDER BY x.grantee)
  FROM (SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS grantee,
               string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type) AS rights
          FROM here h CROSS JOIN LATERAL aclexplode(coalesce(h.datacl, acldefault('d', h.datdba))) a
         WHERE a.grantee = 0 OR a.grantee IN (SELECT r.oid FROM shown_roles r)
         GROUP BY a.grantee) x
UNION ALL
SELECT 'settings of', CASE WHEN r.oid IS NULL THEN 'the database' WHEN s.setdatabase = 0 THEN format('role %I', r.rolname)
                           ELSE format('role %I in the database', r.rolname) END,
       v.settings
  FROM here h JOIN pg_db_role_setting s ON s.setdatabase IN (0, h.oid) LEFT JOIN shown_roles r ON r.oid = s.setrole
       -- Without each server's own part of the ring of MRVs' records.
 CROSS JOIN LATERAL (SELECT string_agg(c, ', ' ORDER BY c) FROM unnest(s.setconfig) c WHERE NOT starts_with(c, 'psp_mrv.ring_')) v(settings)
 WHERE v.settings IS NOT NULL AND (r.oid IS NOT NULL OR s.setrole = 0 AND s.setdatabase <> 0)
UNION ALL
SELECT 'tablespace', t.spcname, '' FROM pg_tablespace t WHERE t.spcname NOT IN ('pg_default', 'pg_global')
UNION ALL
SELECT 'extension', e.extname,  -- each server has its own superusers
       format('%s, schema %s, owner %s', e.extversion, e.extnamespace::regnamespace, CASE WHEN o.rolsuper THEN 'a superuser' ELSE o.rolname END)
  FROM pg_extension e JOIN pg_roles o ON o.oid = e.extowner
UNION ALL
SELECT 'available extension', a.name, '' FROM pg_available_extensions a
UNION ALL
SELECT 'collation', format('pg_catalog.%I', c.collname), '' FROM pg_collation c
 WHERE c.collnamespace = 'pg_catalog'::regnamespace AND c.collencoding IN (-1, pg_char_to_encoding('UTF8'))
UNION ALL
SELECT 'locale of', 'the database',
       concat_ws(', ', 'provider ' || (h.facts ->> 'datlocprovider'), h.datcollate, h.datctype,
                 coalesce(h.facts ->> 'datlocale', h.facts ->> 'daticulocale')) FROM here h
UNION ALL
SELECT 'version of', 'PostgreSQL', (current_setting('server_version_num')::integer / 10000)::text
