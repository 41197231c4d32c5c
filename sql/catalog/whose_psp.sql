-- What the database is, who owns schema psp and so could have put anything into it (null: there is none), and whether this session would run code
-- of that owner's as a superuser.
SELECT CASE WHEN to_regclass('psp.cluster') IS NOT NULL THEN 'primary'
            WHEN to_regclass('psp.status') IS NOT NULL THEN 'semi-primary' END AS kind,
       o.rolname::text AS owner,
       coalesce(i.rolsuper AND NOT o.rolsuper, false) AS is_dangerous
  FROM pg_roles i LEFT JOIN pg_namespace n ON n.nspname = 'psp' LEFT JOIN pg_roles o ON o.oid = n.nspowner
 WHERE i.rolname = current_user
