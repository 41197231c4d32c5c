-- What the epochs found above their beginnings.
SELECT l.global_t, l.tx_id FROM psp.epochs e JOIN psp.replication_log l ON l.global_t BETWEEN e.start_t AND e.kept_t
