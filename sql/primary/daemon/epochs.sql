SELECT encode(uuid_send(history), 'hex') AS history, start_t FROM psp.epochs ORDER BY epoch
