-- Every number that may stand in a write-set, of tables and guards: as adopted, and what schema changes have made of them since.
-- changed_in: the catalog version that its last change has made. One row without a number if there is none.
SELECT c.catalog_version, t.table_id, coalesce(t.changed_in, 1) AS changed_in, coalesce(t.dropped, false) AS dropped
  FROM psp.cluster c
  LEFT JOIN (SELECT table_id, v.changed_in, v.dropped
               FROM (SELECT table_id FROM psp.tables
                     UNION ALL
                     SELECT (guard ->> 'guard_id')::int4 FROM psp.tables, jsonb_array_elements(guards) AS guard) adopted
               FULL JOIN psp.table_versions v USING (table_id)) t ON true
