-- What schema changes must not touch (sql/semi_primary/install/ddl_guard.sql): relations with psp's capture triggers, partitions
-- among them.
CREATE VIEW psp.captured_relations AS
SELECT t.tgrelid AS relation, substring(f.proname, '^capture_([0-9]+)_insert$')::integer AS table_id
  FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
 WHERE f.pronamespace = 'psp'::regnamespace AND f.proname ~ '^capture_[0-9]+_insert$';
