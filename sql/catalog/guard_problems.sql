-- What the guard of an adopted database finds (../common/guard_watch.sql).
SELECT p.problem FROM psp.guard_problems() AS p(problem)
