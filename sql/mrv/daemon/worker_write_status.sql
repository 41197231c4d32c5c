-- The status worker writes a window that has ended ($1 … $2, microseconds since 1970): arrays of column, key, commits,
-- aborts, mean response time, mean number of waiting transactions.
INSERT INTO psp_mrv.status AS s
       (column_id, key, window_began, window_ended, commits, aborts, response_ms, lock_waiters)
SELECT w.column_id, w.key::text[], to_timestamp($1::bigint / 1e6), to_timestamp($2::bigint / 1e6), w.commits, w.aborts,
       w.response_ms, w.lock_waiters
  FROM unnest($3::integer[], $4::text[], $5::bigint[], $6::bigint[], $7::float8[], $8::float8[])
       w (column_id, key, commits, aborts, response_ms, lock_waiters)
    ON CONFLICT (column_id, key) DO UPDATE
       SET window_began = excluded.window_began, window_ended = excluded.window_ended, commits = excluded.commits,
           aborts = excluded.aborts, response_ms = excluded.response_ms, lock_waiters = excluded.lock_waiters
