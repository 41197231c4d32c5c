-- Where the primary stands. Every committed transaction above truncated_t is in the log, so the last number that was
-- ever given to a committed transaction is the log's last, or truncated_t when the log is empty.
SELECT encode(uuid_send(cluster_id), 'hex') AS cluster_id,
       truncated_t,
       greatest(truncated_t, (SELECT max(global_t) FROM psp.replication_log)) AS closed_t
FROM psp.cluster, psp.log_start
