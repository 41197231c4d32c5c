-- psp primary verify, psp cluster verify: the images of the tables %(tables)s that were written before the numbers %(from_t)s.
SELECT d.table_id, d.global_t, d.image
  FROM psp.data d JOIN unnest(%(tables)s::integer[], %(from_t)s::bigint[]) o(table_id, from_t) USING (table_id)
  LEFT JOIN psp.emptied_tables e USING (table_id)
 WHERE NOT d.deleted AND d.global_t < o.from_t AND d.global_t >= coalesce(e.emptied_t, 0)
