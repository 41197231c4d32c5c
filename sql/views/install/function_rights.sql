-- What clients' functions need in a cluster (function_owner.sql). Run after grants.sql.
GRANT USAGE ON SCHEMA psp TO psp_functions;
GRANT SELECT ON psp.applied, psp.identity, psp.temp_alive, psp.watermark TO psp_functions;
GRANT SELECT, INSERT ON psp.transactions TO psp_functions;
GRANT INSERT ON psp.written TO psp_functions;
GRANT EXECUTE ON FUNCTION psp.transaction_uuid(xid8, integer, bytea) TO psp_functions;
