-- From version 9. The status tells who loses to others.
CREATE UNLOGGED TABLE psp.losses (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    status     jsonb NOT NULL
) WITH (fillfactor = 50);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 10;
UPDATE psp.cluster SET schema_version = 10;
