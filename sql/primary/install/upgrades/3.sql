-- From version 2.
CREATE TABLE psp.epochs (
    epoch   bigint PRIMARY KEY,
    history uuid NOT NULL DEFAULT gen_random_uuid(),
    start_t bigint NOT NULL
);
-- All that was decided before is one history.
INSERT INTO psp.epochs (epoch, start_t) SELECT epoch, 0 FROM psp.cluster;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 3;
UPDATE psp.cluster SET schema_version = 3;
