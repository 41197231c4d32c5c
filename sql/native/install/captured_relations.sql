-- What schema changes must not touch (sql/semi_primary/install/ddl_guard.sql): relations with psp's triggers, partitions among
-- them.
CREATE VIEW psp.captured_relations AS
SELECT DISTINCT t.tgrelid AS relation
  FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
 WHERE f.pronamespace = 'psp'::regnamespace;
