-- From version 3.
ALTER TABLE psp.epochs ADD kept_t bigint;
UPDATE psp.epochs SET kept_t = start_t - 1;
ALTER TABLE psp.epochs ALTER kept_t SET NOT NULL;
CREATE TABLE psp.decided (
    first_t bigint NOT NULL,
    last_t  bigint NOT NULL
);
ALTER TABLE psp.log_start ADD settled_t bigint NOT NULL DEFAULT 0;
-- Which batches were decided was not written down: nothing is taken to be missing.
UPDATE psp.log_start SET settled_t = greatest(truncated_t, (SELECT max(global_t) FROM psp.replication_log));
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 4;
UPDATE psp.cluster SET schema_version = 4;
