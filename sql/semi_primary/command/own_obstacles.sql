-- psp schema check of an SP in native mode: what it knows alone.
SELECT 'error' AS severity, 'semi-primary ' || s.name AS object, 'it has stopped applying: ' || s.last_error AS problem,
       'remove the cause; it goes on by itself' AS hint
  FROM psp.status s WHERE s.last_error IS NOT NULL
UNION ALL
SELECT 'warning', format('job %s.%s', j.change, j.statement_n), coalesce(j.last_error, 'it has failed'),
       'remove the cause and call psp.retry_job, or end it by psp.end_job'
  FROM psp.schema_jobs j WHERE j.state = 'failed'
UNION ALL
SELECT 'note', format('index %I.%I', n.nspname, a.name), 'it was made at this semi-primary only',
       'a schema change may want its name: SET psp.schema_changes = local; DROP INDEX'
  FROM psp.indexes_alone a JOIN pg_namespace n ON n.oid = a.schema
UNION ALL
SELECT 'note', format('index %s', u.label), 'CREATE INDEX CONCURRENTLY has not made it to its end', 'DROP INDEX, unless it is being made'
  FROM psp.unfinished_indexes() u
