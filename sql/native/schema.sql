-- The psp schema of a semi-primary in native mode. Applied by `psp schema adopt` and `psp cluster join`.
-- No application role has a right on anything here but USAGE on the schema and the three functions
-- psp.outcome, psp.snapshot and the view psp.status (see grants.sql).

CREATE TABLE psp.identity (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id     uuid NOT NULL,
    sp_id          integer NOT NULL,
    name           text NOT NULL,
    mode           text NOT NULL DEFAULT 'native',
    schema_version integer NOT NULL DEFAULT 2,  -- a change of a table here raises it; the daemon refuses all others
    token          text NOT NULL,      -- what the commit hook shows the daemon, and nobody else can read
    hook_conninfo  text NOT NULL,      -- where the daemon's commit hook server listens (libpq conninfo)
    joining        boolean NOT NULL DEFAULT false  -- true until the copy from the primary is complete
);

CREATE TABLE psp.tables (
    table_id    integer PRIMARY KEY,
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    -- [{"name", "type": format_type, "encoding": "binary"|"text"}] in image order, generated columns left out
    columns     jsonb NOT NULL,
    -- [{"name", "type", "normalise": "none"|"numeric"|"float"|"text"|"base"}] in key order. type: of the normalised value
    -- (a domain's base type); of an enum the enum's, whose binary form is the label, like text's
    key_columns jsonb NOT NULL,
    -- [{"guard_id", "index": name, "columns": text for messages}]
    guards      jsonb NOT NULL DEFAULT '[]',
    UNIQUE (schema_name, table_name)
);

-- The strides of sequences: this SP draws base + increment * (sp_id + slots * n), stride = increment * slots.
CREATE TABLE psp.sequences (
    schema_name   text NOT NULL,
    sequence_name text NOT NULL,
    base          bigint NOT NULL,     -- where the sequence stood at adoption
    increment     bigint NOT NULL,     -- what it was before, and is again after release
    stride        bigint NOT NULL,
    PRIMARY KEY (schema_name, sequence_name)
);

-- W and, for own commits above W, their proof of being in. Both change in the transaction whose effects they tell.
CREATE TABLE psp.watermark (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    watermark bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);

CREATE TABLE psp.applied (
    global_t bigint PRIMARY KEY,
    tx_id    uuid NOT NULL
);

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

-- Written by the daemon about once a second; read by psp.status.
CREATE UNLOGGED TABLE psp.daemon_status (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    status     jsonb NOT NULL
) WITH (fillfactor = 50);
