-- All numbers up to $1 are decided: their batches need not be told one by one any more.
WITH removed AS (DELETE FROM psp.decided WHERE last_t <= $1)
UPDATE psp.log_start SET settled_t = greatest(settled_t, $1)
