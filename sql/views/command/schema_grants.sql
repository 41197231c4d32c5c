-- Grants on a schema, without the owner's own, which every schema has.
SELECT CASE WHEN a.grantee = 0 THEN NULL ELSE pg_get_userbyid(a.grantee)::text END, a.privilege_type,
       a.is_grantable, NULL
FROM pg_namespace n, aclexplode(n.nspacl) WITH ORDINALITY a(grantor, grantee, privilege_type, is_grantable, n)
WHERE n.nspname = %s AND a.grantee <> n.nspowner ORDER BY a.n
