-- The roles that own captured tables: how many, the first one's name, whether the role may change the cluster's schema (psp.ddl), and whether psp lets it
-- be granted. In native mode; as a role that may read psp's tables.
SELECT r.rolname::text AS role, count(*) AS tables, min(format('%I.%I', n.nspname, c.relname)) AS first_table,
       has_function_privilege(r.oid, 'psp.ddl(text)', 'EXECUTE') AND psp.may_change_schema(r.rolname) AS may_change,
       psp.may_change_schema(r.rolname) AS can_be_granted,
       format('GRANT EXECUTE ON FUNCTION psp.ddl(text) TO %I', r.rolname) AS grant
  FROM psp.captured_relations k
  JOIN pg_class c ON c.oid = k.relation AND NOT c.relispartition
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname <> 'psp'
  JOIN pg_roles r ON r.oid = c.relowner
 GROUP BY r.oid, r.rolname
 ORDER BY r.rolname
