-- The next published transactions above $1 up to $2, as many as have $3 bytes of write-sets before the last one.
SELECT global_t, tx_id, sp_id, write_set
FROM (
    SELECT *, sum(octet_length(write_set)) OVER (ORDER BY global_t) - octet_length(write_set) AS bytes_before
    FROM (
        SELECT global_t, tx_id, sp_id, write_set
        FROM psp.replication_log
        WHERE global_t > $1 AND global_t <= $2
        ORDER BY global_t
        LIMIT 4096
    ) AS next
) AS counted
WHERE bytes_before < $3
ORDER BY global_t
