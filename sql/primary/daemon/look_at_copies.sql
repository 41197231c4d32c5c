-- How far the WAL is on this server's disk, which covers all that this session has committed or could see, and how far on the disks of
-- $1 synchronous standbys; null: psp.synchronous_standbys has not so many.
SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn,
       (SELECT flush_lsn - '0/0'::pg_lsn FROM psp.synchronous_standbys() ORDER BY flush_lsn DESC OFFSET $1::integer - 1 LIMIT 1)
