-- Grants on a table and its columns, in the order in which they stand: granted in it again, they come out the same.
SELECT x.grantee_name, x.privilege, x.grantable, x.column_name FROM (
    SELECT a.grantee, a.privilege_type, a.is_grantable, NULL::text, 0 AS number, a.n
    FROM pg_class c, aclexplode(c.relacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
    WHERE c.oid = %(oid)s AND a.grantee <> c.relowner
    UNION ALL
    SELECT a.grantee, a.privilege_type, a.is_grantable, t.attname::text, t.attnum, a.n
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid,
         aclexplode(t.attacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
    WHERE t.attrelid = %(oid)s AND NOT t.attisdropped
) g(grantee, privilege, grantable, column_name, number, n)
CROSS JOIN LATERAL (SELECT CASE WHEN g.grantee = 0 THEN NULL ELSE pg_get_userbyid(g.grantee)::text END,
                           g.privilege, g.grantable, g.column_name)
           x(grantee_name, privilege, grantable, column_name)
ORDER BY g.number, g.n
