-- The psp schema of a semi-primary in native mode, after sql/common/semi_primary.sql. Applied by `psp schema adopt` and
-- `psp schema join`.
-- No application role has a right on anything here but USAGE on the schema and the three functions
-- psp.outcome, psp.snapshot and the view psp.status (see grants.sql).

-- Open transactions that have written. Unlogged: they do not survive a crash, nor must these rows.
CREATE UNLOGGED TABLE psp.commit_intent (
    xid     xid8 PRIMARY KEY,
    step    smallint NOT NULL DEFAULT 0,     -- 0: written; 1: COMMIT said, user's deferred triggers first
    decided boolean NOT NULL DEFAULT false,  -- committed at the primary
    filler  boolean NOT NULL DEFAULT false   -- see psp.clean
) WITH (fillfactor = 50);

-- One row for each statement and operation. payload is a concatenation of entries:
--   op 'i' (row is as in image): n (1 byte), n places (2 bytes each, big endian, from 0) of the key's columns in the
--                                image, record_send(ROW(columns…)) for each row
--   op 'u' (the same, where keys are normalised): record_send(ROW(key bytea, image bytea)) for each row
--   op 'd' (row is gone):        record_send(ROW(key bytea)) for each row
--   op 'g' (guard taken):        record_send(ROW(key bytea)) for each value; table_id is the guard's id
--   op 's' (a statement begins; only on tables with triggers or cascades of their own): payload empty
-- In the order of cmin; see semi_primary/commit_hook/README.md for how nested statements are put in order.
CREATE UNLOGGED TABLE psp.write_set (
    xid      xid8 NOT NULL,
    table_id integer NOT NULL,
    op       "char" NOT NULL,
    depth    smallint NOT NULL,        -- pg_trigger_depth()
    payload  bytea NOT NULL
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.0);
ALTER TABLE psp.write_set ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX write_set_xid ON psp.write_set (xid);
