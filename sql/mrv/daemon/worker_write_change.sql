-- What adjust has done with a value: $3 records now, changed by $4. A value that is not heard of has no row yet.
INSERT INTO psp_mrv.status AS s
       (column_id, key, window_began, window_ended, commits, aborts, records, last_change, changed_at)
VALUES ($1, $2::text[], to_timestamp($5::bigint / 1e6), to_timestamp($6::bigint / 1e6), 0, 0, $3, $4, clock_timestamp())
    ON CONFLICT (column_id, key) DO UPDATE
       SET records = excluded.records, last_change = excluded.last_change, changed_at = excluded.changed_at
RETURNING (extract(epoch FROM changed_at) * 1000000)::bigint
