-- From version 8. A transaction may lose a key that it has not written.
ALTER TABLE psp.tx_log ADD COLUMN lost_use smallint;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 9;
UPDATE psp.cluster SET schema_version = 9;
