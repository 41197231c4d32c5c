SELECT uuid_send(history) AS history, start_t FROM psp.epochs ORDER BY start_t
