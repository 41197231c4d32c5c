-- Forgets decisions older than $1 seconds, some thousand at a time: a request repeated after that is certified anew.
DELETE FROM psp.tx_log
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM psp.tx_log WHERE decided_at < now() - make_interval(secs => $1) LIMIT 20000))
