-- Whether a backend is committing transaction $1: it holds the transaction's lock and is in the commit hook, which
-- alone locks psp.committing. Anybody may take an advisory lock.
SELECT EXISTS (
    SELECT FROM pg_locks a JOIN pg_locks c USING (pid)
     WHERE a.locktype = 'advisory' AND a.granted AND a.objsubid = 2 AND a.classid = @LOCK_CLASS@
       AND a.objid = (hashtext($1)::bigint & 4294967295)::oid
       AND c.locktype = 'relation' AND c.relation = 'psp.committing'::regclass AND c.granted)
