-- The pid of this session, and its start: a pid may be given out again, a pid with its start may not.
SELECT pid, extract(epoch FROM backend_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()
