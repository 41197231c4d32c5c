-- What a worker tells of itself, about once a second.
INSERT INTO psp_mrv.workers (worker, runner, pid, updated_at, rounds, actions, aborts, last_error)
VALUES ($1, $2, $3, clock_timestamp(), $4, $5, $6, $7)
    ON CONFLICT (worker, runner) DO UPDATE
       SET pid = excluded.pid, updated_at = excluded.updated_at, rounds = excluded.rounds, actions = excluded.actions,
           aborts = excluded.aborts, last_error = excluded.last_error
