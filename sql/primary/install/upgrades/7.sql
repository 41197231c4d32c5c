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
-- Each schema change until now has made a version; (change, statement) is the key of its rows.
INSERT INTO psp.catalog_versions
SELECT n + 1, d.global_t
  FROM generate_series(1, (SELECT count(*)::integer FROM psp.data WHERE table_id = 0)) n
  JOIN psp.data d ON d.table_id = 0 AND d.key = record_send(ROW(n, 1));
UPDATE psp.cluster SET catalog_version = 1 + (SELECT count(*) FROM psp.catalog_versions);
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 7;
UPDATE psp.cluster SET schema_version = 7;
