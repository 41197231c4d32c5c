-- The application's own triggers on its tables.
SELECT t.relation::int8 AS table_oid, t.name, t.enabled, t.deferrable, t.before_row, t.on_truncate, t.notifies
  FROM own_relations r JOIN trigger_facts t USING (relation)
 WHERE r.kind IN ('r', 'p', 'f')
 ORDER BY t.name
