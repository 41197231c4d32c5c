-- How images that were written under an older catalog become rows of today: one row for each column of today's image, in its order.
SELECT o.table_id, o.until_version, (f.value ->> 'place')::integer AS place, decode(f.value ->> 'value', 'hex') AS value
  FROM psp.older_images o, jsonb_array_elements(o.fields) WITH ORDINALITY f
 ORDER BY o.table_id, o.until_version, f.ordinality
