-- psp mrv status: the workers of this server.
SELECT worker, runner, pid, round(extract(epoch FROM clock_timestamp() - updated_at), 1)::float8 AS silent_s,
       rounds, actions, aborts, last_error
  FROM psp_mrv.workers ORDER BY worker, runner
