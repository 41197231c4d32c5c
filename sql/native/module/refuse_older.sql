SELECT psp.refuse_commit(false, 0)::text
