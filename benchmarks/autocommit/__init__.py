"""`make bench-autocommit`: psp.retry_autocommit for applications that run nothing again."""
