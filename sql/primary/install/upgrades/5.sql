-- From version 4. Guards are found by the index of deleted keys from now on.
ALTER TABLE psp.log_start ADD collected_t bigint NOT NULL DEFAULT 0;
UPDATE psp.data SET deleted = true WHERE image IS NULL AND NOT deleted;
CREATE INDEX data_deleted ON psp.data (table_id, key) WHERE deleted;
CREATE FUNCTION psp.refuse_batch() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'a deleted key of this batch has been collected meanwhile';
END $$;
ALTER TABLE psp.semi_primaries ADD released_t bigint;
DROP INDEX psp.tx_log_decided_at;
CREATE INDEX tx_log_decided_at ON psp.tx_log (decided_at);
ALTER TABLE psp.tx_log SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 5;
UPDATE psp.cluster SET schema_version = 5;
