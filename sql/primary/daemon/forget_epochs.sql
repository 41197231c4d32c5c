-- Epochs that ended before the log begins, since no SP can go on from there; and of those that have decided nothing all but the newest thousand.
-- An SP may have followed one of these last, and follows only who has it.
DELETE FROM psp.epochs e
 WHERE EXISTS (SELECT FROM psp.epochs n, psp.log_start l WHERE n.start_t > e.start_t AND n.start_t <= l.truncated_t)
    OR e.epoch <= (SELECT x.epoch FROM psp.epochs x ORDER BY x.epoch DESC OFFSET 1000 LIMIT 1)
       AND EXISTS (SELECT FROM psp.epochs n WHERE n.epoch > e.epoch AND n.start_t = e.start_t)
