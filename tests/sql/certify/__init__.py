"""What decides batches at the primary: the statement in SQL, and the server module psp_certify."""
