-- The number of the last transaction that is committed here, published or not.
SELECT greatest(truncated_t, (SELECT max(global_t) FROM psp.replication_log)) FROM psp.log_start
