-- Every number that may stand in a write-set, of tables and guards: as adopted, and what schema changes have made of them since.
-- changed_in: the catalog version that its last change has made. of_table: the table that it belongs to; null: an older psp has noted it.
-- form: of its keys and images; null: of a guard, or an older psp has noted it. One row without a number if there is none.
WITH adopted AS (
    SELECT table_id, table_id AS of_table, form FROM psp.tables
    UNION ALL
    SELECT (guard ->> 'guard_id')::int4, table_id, NULL FROM psp.tables, jsonb_array_elements(guards) AS guard
)
SELECT c.catalog_version, t.table_id, coalesce(t.changed_in, 1) AS changed_in, coalesce(t.dropped, false) AS dropped, t.of_table, t.form
  FROM psp.cluster c
  LEFT JOIN (SELECT table_id, v.changed_in, v.dropped, coalesce(v.of_table, a.of_table) AS of_table,
                    CASE WHEN v.changed_in IS NULL THEN a.form ELSE v.form END AS form
               FROM adopted a FULL JOIN psp.table_versions v USING (table_id)) t ON true
