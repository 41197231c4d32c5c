-- psp schema join --schema-from: a job, at the semi-primary that joins. One that was not done at the other one is new here; an older REINDEX, VACUUM or
-- ANALYZE is not needed.
INSERT INTO psp.jobs (change, statement_n, state, relation, index_name)
SELECT h.change, h.statement_n, CASE WHEN %(is_done)s OR psp.bare_statement(h.statement) !~* '^(create|drop)\M' THEN 'done' ELSE 'waiting' END,
       to_regclass(%(relation)s), %(index_name)s
  FROM psp.statements_of_older_copy h WHERE (h.change, h.statement_n) = (%(change)s, %(statement_n)s)
