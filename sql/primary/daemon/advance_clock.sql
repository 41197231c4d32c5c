-- $1 milliseconds more.
UPDATE psp.log_start SET clock_ms = clock_ms + $1
