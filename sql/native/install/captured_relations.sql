-- What schema changes must not touch (sql/semi_primary/install/ddl_guard.sql): relations with psp's capture triggers, partitions
-- among them. (DISTINCT: with the server module some have both kinds.)
CREATE VIEW psp.captured_relations AS
SELECT DISTINCT t.tgrelid AS relation, substring(f.proname, '^capture_([0-9]+)_')::integer AS table_id
  FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
 WHERE f.pronamespace = 'psp'::regnamespace AND f.proname ~ '^capture_[0-9]+_(update|row)$';
