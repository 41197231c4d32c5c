-- The watch's look (primary/server_watch.h): how far the WAL is on this server's disk, how many synchronous standbys are connected, and how
-- many of these have it up to $1. The session calls itself $2, which psp primary status reads (sql/primary/command/cluster_status.sql):
-- the daemon can tell it so when nothing can be written.
SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn,
       count(*),
       count(*) FILTER (WHERE s.flush_lsn >= '0/0'::pg_lsn + $1::numeric),
       set_config('application_name', $2, false)
  FROM psp.synchronous_standbys() s
