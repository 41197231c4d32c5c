-- The server module psp_certify (certify_module/), which certifies batches in place of certify_batch.sql. Run after schema.sql and after
-- each upgrade, by a superuser, where the server has the module.
DROP FUNCTION IF EXISTS psp.certify_module_version;
DROP FUNCTION IF EXISTS psp.certify_batch;

CREATE FUNCTION psp.certify_module_version() RETURNS integer LANGUAGE c AS 'psp_certify', 'psp_certify_module_version';

-- The parameters and rows of certify_batch.sql.
CREATE FUNCTION psp.certify_batch(
    tx_id uuid[], sp_id integer[], global_t bigint[], watermark bigint[], seen_from integer[], seen_to integer[], seen bigint[],
    reason text[], write_set bytea[], lost_table_id integer[], lost_key bytea[], winner_t bigint[], winner_sp_id integer[],
    lost_use integer[], row_i integer[], row_table_id integer[], row_key bytea[], row_deleted boolean[], row_image bytea[],
    row_known_t bigint[], row_use integer[], first_t bigint, last_t bigint)
RETURNS TABLE (
    i bigint, global_t bigint, reason text, lost_table_id integer, lost_key bytea, winner_t bigint, winner_sp_id integer,
    lost_use integer)
LANGUAGE c AS 'psp_certify', 'psp_certify_batch';
REVOKE ALL ON FUNCTION psp.certify_batch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION psp.certify_batch TO psp_primary;
