-- Changes the number of a value's records. The advisory lock, held until the end of this transaction, keeps every other
-- runner of any worker away from the value. $4: how long to wait for a lock, in milliseconds; then 55P03. CASE sees to it
-- that these come first.
SELECT (adjusted).outcome, (adjusted).records_before, (adjusted).records_after
  FROM (SELECT CASE WHEN set_config('lock_timeout', $4::text, true) IS NOT NULL
                         AND pg_advisory_xact_lock(hashtext('psp_mrv'), hashtext($1::integer || $2::text)) IS NOT NULL
                    THEN psp_mrv.adjust($1::integer, $2::text[], $3::integer) END AS adjusted
        OFFSET 0) once
