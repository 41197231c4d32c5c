-- Waits until no backend is committing transaction $1 any more: the commit hook holds this lock until it has ended.
SELECT pg_advisory_xact_lock_shared(@LOCK_CLASS@, hashtext($1))
