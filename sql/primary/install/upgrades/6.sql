-- From version 5. Access kinds, kinds of entries and catalog versions are in the write-sets themselves. Those in the log are for
-- semi-primaries of the older psp, which have to join again.
ALTER TABLE psp.cluster ADD catalog_version integer NOT NULL DEFAULT 1;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 6;
UPDATE psp.cluster SET schema_version = 6;
