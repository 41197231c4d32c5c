-- The values of runner $1 of $2 that were heard of in the window that ended at $3 (microseconds since 1970).
SELECT column_id, key::text, commits, aborts, response_ms, lock_waiters,
       (extract(epoch FROM changed_at) * 1000000)::bigint AS changed_us
  FROM psp_mrv.status
 WHERE window_ended = to_timestamp($3::bigint / 1e6) AND abs(hashtext(key::text) % $2::integer) = $1::integer
