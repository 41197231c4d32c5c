-- Extensions that belong to a role which is no superuser: a trusted one, which the role has made itself.
SELECT e.extname::text, r.rolname::text
  FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_roles r ON r.oid = e.extowner
 WHERE NOT r.rolsuper
