-- What the guard of an adopted database finds (sql/semi_primary/install/guard_watch.sql).
SELECT p.problem FROM psp.guard_problems() AS p(problem)
