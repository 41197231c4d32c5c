-- Forgets decisions older than $1 seconds, some thousand at a time: a request repeated after that is certified anew.
-- But what was committed stays while the log has it: its semi-primary may not have it yet, and ask what became of it.
DELETE FROM psp.tx_log
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM psp.tx_log WHERE decided_at < now() - make_interval(secs => $1)
      AND (global_t IS NULL OR global_t <= (SELECT truncated_t FROM psp.log_start))
    LIMIT 20000))
