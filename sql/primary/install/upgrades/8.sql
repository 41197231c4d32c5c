-- From version 7. TRUNCATE empties tables.
CREATE TABLE psp.emptied_tables (
    table_id   integer PRIMARY KEY,
    emptied_t  bigint NOT NULL,
    swept_upto bytea NOT NULL DEFAULT ''
);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 8;
UPDATE psp.cluster SET schema_version = 8;
