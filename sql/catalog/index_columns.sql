-- The key columns of unique and exclusion indexes of the application's tables.
SELECT f.index::int8 AS index_oid, f.number, f.definition, f.collation, f.index_collation, f.equality, f.normalise, f.key_type,
       f.plain_name
  FROM own_relations r JOIN pg_catalog.pg_index i ON i.indrelid = r.relation JOIN index_column_facts f ON f.index = i.indexrelid
 WHERE r.kind IN ('r', 'p', 'f')
 ORDER BY f.index, f.place
