-- The key columns of unique and exclusion indexes of the application's tables; of exclusion constraints those that are compared by
-- the equality of their types.
SELECT f.index::int8 AS index_oid, f.number, f.definition, f.collation, f.index_collation, f.equality, f.normalise, f.key_type,
       f.plain_name
  FROM own_relations r JOIN pg_catalog.pg_index i ON i.indrelid = r.relation JOIN index_column_facts f ON f.index = i.indexrelid
 WHERE r.kind IN ('r', 'p', 'f') AND f.operator_class IS NOT NULL
 ORDER BY f.index, f.place
