-- Cancels the statement of the apply worker's backend $1 if it is in a table's triggers for $2 ms: the functions that write rows of such tables tell so
-- (psp.apply_body).
SELECT pg_cancel_backend(a.pid) FROM pg_stat_activity a
 WHERE a.pid = $1::integer AND a.state = 'active'
   AND to_timestamp(substring(a.application_name FROM ', triggers since ([0-9]+)$')::double precision)
       < clock_timestamp() - make_interval(secs => $2::double precision / 1000)
