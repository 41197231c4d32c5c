SELECT coalesce(max(global_t), 1) FROM psp.replication_log
