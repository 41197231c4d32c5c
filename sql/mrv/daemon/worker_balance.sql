-- One step of balance: how many records were written; null: another runner has the value now.
SELECT CASE WHEN pg_try_advisory_xact_lock(hashtext('psp_mrv'), hashtext($1::integer || $2::text))
            THEN psp_mrv.balance($1::integer, $2::text[], $3::text) END
