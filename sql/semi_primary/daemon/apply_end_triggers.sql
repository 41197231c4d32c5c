-- What the apply worker's backend $1 does, if triggers for rows of others may run in it: a name that differs from statement to statement. If that is
-- still $2, it is ended; $3: it has caught a cancel before.
SELECT w.name, w.ended FROM psp.watch_triggers($1::integer, $2, $3::boolean) w
