-- psp top, psp console: the newest jobs and their states here, as JSON objects. For those who may read psp.schema_jobs: statements may contain secrets.
SELECT jsonb_build_object('change', j.change, 'statement_n', j.statement_n, 'statement', left(j.statement, 300), 'requested_at', j.requested_at,
                          'state', j.state, 'last_error', j.last_error) AS job
  FROM psp.schema_jobs j
 ORDER BY j.change DESC, j.statement_n DESC
 LIMIT 10
