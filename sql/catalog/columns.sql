-- The columns of the application's tables. leaves: the scalar types that the column's type is made of.
SELECT a.attrelid::int8 AS table_oid, a.attnum::int AS number, a.attname AS name,
       format_type(a.atttypid, a.atttypmod) AS type_name, a.attnotnull AS not_null, a.attidentity::text AS identity,
       a.attgenerated <> '' AS generated, a.attgenerated = 'v' AS virtual, t.leaves
  FROM own_relations o JOIN pg_catalog.pg_attribute a ON a.attrelid = o.relation
  JOIN (SELECT f.type, ARRAY(
                   SELECT jsonb_build_object('is_builtin', l.oid < 16384, 'name', format_type(l.oid, -1), 'kind', l.typtype,
                                             'has_binary', l.typsend <> 0 AND l.typreceive <> 0)
                     FROM pg_catalog.pg_type l WHERE l.oid = ANY (f.leaves) ORDER BY l.oid) AS leaves
          FROM type_facts f
         WHERE f.type IN (SELECT c.atttypid FROM own_relations r JOIN pg_catalog.pg_attribute c ON c.attrelid = r.relation
                           WHERE r.kind IN ('r', 'p', 'f'))
        OFFSET 0) t ON t.type = a.atttypid
 WHERE o.kind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
