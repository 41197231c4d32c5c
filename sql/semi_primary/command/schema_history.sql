-- The schema changes that a semi-primary in native mode has, oldest first. job: the state here of one that runs outside of the stream.
SELECT h.change, h.statement_n, h.executed_at, h.sp_name, h.role, h.statement, j.state AS job
  FROM psp.schema_history h LEFT JOIN psp.schema_jobs j USING (change, statement_n) ORDER BY h.change, h.statement_n
