-- From version 6. Schema changes change captured tables.
CREATE TABLE psp.table_versions (
    table_id   integer PRIMARY KEY,
    changed_in integer NOT NULL,
    dropped    boolean NOT NULL
);
CREATE TABLE psp.catalog_versions (
    version  integer PRIMARY KEY,
    global_t bigint NOT NULL UNIQUE
);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 7;
UPDATE psp.cluster SET schema_version = 7;
