-- Every number that may stand in a write-set: tables and guards. One row without a number if there is none.
SELECT c.catalog_version, t.table_id
  FROM psp.cluster c
  LEFT JOIN (SELECT table_id FROM psp.tables
             UNION ALL
             SELECT (guard ->> 'guard_id')::int4 FROM psp.tables, jsonb_array_elements(guards) AS guard) t ON true
