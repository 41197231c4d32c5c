-- psp schema join --schema-from: statements by which triggers that are set aside here fire for rows of others, as they do elsewhere.
SELECT format('ALTER TABLE %I.%I ENABLE %s TRIGGER %I', n.nspname, c.relname, CASE a.enabled WHEN 'A' THEN 'ALWAYS' ELSE 'REPLICA' END, a.name)
  FROM psp.triggers_aside a JOIN pg_class c ON c.oid = a.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_trigger t ON (t.tgrelid, t.tgname) = (a.relation, a.name)
 WHERE t.tgenabled = 'O'
