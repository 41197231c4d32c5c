-- The values of runner $1 of $2 that stand in records now, and when adjust has changed them last.
SELECT c.column_id, k.key::text, (extract(epoch FROM s.changed_at) * 1000000)::bigint AS changed_us
  FROM psp_mrv.columns c
 CROSS JOIN LATERAL psp_mrv.split_keys(c.column_id) k (key)
  LEFT JOIN psp_mrv.status s ON s.column_id = c.column_id AND s.key = k.key
 WHERE abs(hashtext(k.key::text) % $2::integer) = $1::integer
