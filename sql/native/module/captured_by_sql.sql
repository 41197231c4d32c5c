-- What SQL has captured of this transaction, as chunks (writeset/FORMAT.md).
SELECT string_agg(record_send(ROW(w.cmin, w.table_id, w.op, w.payload)), '') FROM psp.write_set w WHERE w.xid = pg_current_xact_id()
