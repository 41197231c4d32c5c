-- The application's own triggers. Those that partitions have from their parents are left out.
SELECT t.tgrelid AS relation, t.tgname AS name, t.tgenabled::text AS enabled, t.tgdeferrable AS deferrable,
       t.tgtype & 3 = 3 AS before_row, t.tgtype & 32 <> 0 AS on_truncate,
       f.prosrc ~* '[[:<:]]pg_notify[[:>:]]' AS notifies
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
 WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND n.nspname <> 'psp'
