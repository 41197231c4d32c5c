-- Every number that may stand in a write-set, of tables and guards: as adopted, and what schema changes have made of them since.
-- changed_in: the catalog version that its last change has made. of_table: the table that it belongs to; null: an older psp has noted it.
-- key, columns: the types of the fields of keys and images, 0 for one that this server does not have; null: of a guard, or of a table that
-- has changed since it was adopted. One row without a number if there is none.
WITH adopted AS (
    SELECT t.table_id, t.table_id AS of_table,
           (SELECT string_agg(coalesce(CASE k.value ->> 'normalise' WHEN 'text' THEN 'text'::regtype ELSE to_regtype(k.value ->> 'type') END::oid, 0)::text,
                              ',' ORDER BY k.ordinality)
              FROM jsonb_array_elements(t.key_columns) WITH ORDINALITY k) AS key,
           (SELECT string_agg(coalesce(CASE c.value ->> 'encoding' WHEN 'text' THEN 'text'::regtype ELSE to_regtype(c.value ->> 'type') END::oid, 0)::text,
                              ',' ORDER BY c.ordinality)
              FROM jsonb_array_elements(t.columns) WITH ORDINALITY c) AS columns
      FROM psp.tables t
    UNION ALL
    SELECT (guard ->> 'guard_id')::int4, table_id, NULL, NULL FROM psp.tables, jsonb_array_elements(guards) AS guard
)
SELECT c.catalog_version, t.table_id, coalesce(t.changed_in, 1) AS changed_in, coalesce(t.dropped, false) AS dropped, t.of_table,
       CASE WHEN t.changed_in IS NULL THEN t.key END AS key, CASE WHEN t.changed_in IS NULL THEN t.columns END AS columns
  FROM psp.cluster c
  LEFT JOIN (SELECT table_id, v.changed_in, v.dropped, coalesce(v.of_table, a.of_table) AS of_table, a.key, a.columns
               FROM adopted a FULL JOIN psp.table_versions v USING (table_id)) t ON true
