-- From version 11. It is known which semi-primaries are connected, and since when the others are away.
ALTER TABLE psp.semi_primaries ADD COLUMN is_connected boolean NOT NULL DEFAULT false;
ALTER TABLE psp.semi_primaries ADD COLUMN seen_at timestamptz;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 12;
UPDATE psp.cluster SET schema_version = 12;
