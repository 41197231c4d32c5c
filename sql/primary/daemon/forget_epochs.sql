-- Before an epoch begins that gives out $1 first: those that have decided nothing, and those that ended before the log
-- begins, since no SP can go on from there.
DELETE FROM psp.epochs e
 WHERE e.start_t >= $1
    OR EXISTS (SELECT FROM psp.epochs n, psp.log_start l WHERE n.start_t > e.start_t AND n.start_t <= l.truncated_t)
