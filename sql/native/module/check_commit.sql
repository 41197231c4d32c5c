SELECT psp.check_commit($1::uuid)::text
