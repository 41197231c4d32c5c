SELECT encode(uuid_send(history), 'hex') AS history, start_t, kept_t FROM psp.epochs ORDER BY epoch
