-- The columns of all relations.
SELECT a.attrelid AS relation, a.attnum::int AS number, a.attname AS name, a.atttypid AS type,
       format_type(a.atttypid, a.atttypmod) AS type_name, a.atttypmod AS type_modifier, a.attnotnull AS not_null,
       a.attidentity::text AS identity, a.attgenerated <> '' AS generated,
       f.encoding, f.checked_as, f.by_output, f.leaves
  FROM pg_catalog.pg_attribute a
 CROSS JOIN LATERAL (SELECT * FROM type_facts f WHERE f.type = a.atttypid OFFSET 0) f
 WHERE a.attnum > 0 AND NOT a.attisdropped
