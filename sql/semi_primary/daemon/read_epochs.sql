SELECT uuid_send(history) AS history, start_t, binding FROM psp.epochs ORDER BY place
