-- The global_t of each schema change up to $1: that of its first statement's row.
SELECT n, d.global_t
  FROM generate_series(1, %s::integer) n
  JOIN psp.data d ON d.table_id = @SCHEMA_HISTORY_ID@ AND d.key = record_send(ROW(n, 1))
 ORDER BY n
