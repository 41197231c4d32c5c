-- The watch's look (primary/server_watch.h): how far the WAL is on this server's disk, how many synchronous standbys are connected, and how
-- many of these have it up to $1. The session calls itself $2, which psp primary status reads (sql/primary/command/cluster_status.sql):
-- the daemon can tell it so when nothing can be written. The last column: the server hands over to a standby (psp primary switchover), for which
-- COMMITs may wait so long; null: it does not.
SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn,
       count(*),
       count(*) FILTER (WHERE s.flush_lsn >= '0/0'::pg_lsn + $1::numeric),
       set_config('application_name', $2, false),
       (SELECT h.limit_ms FROM psp.hand_over h WHERE h.timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8))
  FROM psp.synchronous_standbys() s
