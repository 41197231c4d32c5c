-- From version 1. IF NOT EXISTS: between the two, databases were made with the column and the old number.
ALTER TABLE psp.semi_primaries ADD COLUMN IF NOT EXISTS join_t bigint;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 2;
UPDATE psp.cluster SET schema_version = 2;
