-- The psp schema of a database in views mode; semi_primary.sql follows. Applied by `psp schema convert`. See ../README.md
-- for who writes what.
CREATE SCHEMA psp;

-- What `psp schema convert` did, and needs to undo: one row for each converted table.
CREATE TABLE psp.converted_tables (
    table_id    integer PRIMARY KEY,
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    persistent  text NOT NULL,         -- names in the same schema
    temp        text NOT NULL
);

-- Whole statements that bring back what conversion took away: unique constraints and indexes (partial ones are in their
-- place), foreign keys, grants. Run by release in this order.
CREATE TABLE psp.undo (
    step      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    statement text NOT NULL
);

-- The schema that holds each variant of the views; variant union is in the application's own schema.
CREATE TABLE psp.variant_schemas (
    schema_name    text NOT NULL,
    variant        text NOT NULL CHECK (variant IN ('fulljoin', 'nryotw')),
    variant_schema text NOT NULL UNIQUE,
    PRIMARY KEY (schema_name, variant)
);

-- The semi-primary's log (thesis, section 3.3.5).
CREATE TYPE psp.tx_status AS ENUM ('running', 'waiting', 'committed', 'aborted', 'pending');

CREATE TABLE psp.transactions (
    tx_id     uuid PRIMARY KEY,
    xid       xid8 NOT NULL,                         -- PostgreSQL's number, which stamps the rows of every T_temp
    status    psp.tx_status NOT NULL DEFAULT 'running',
    watermark bigint NOT NULL,                       -- the snapshot (W, seen) in which it began
    seen      bigint[] NOT NULL,
    catalog_version integer NOT NULL,                -- the tables as it found them
    epoch     uuid NOT NULL,                         -- of psp.temp_alive; a prepared transaction may outlive it
    global_t  bigint,                                -- of a committed one that wrote
    -- of an aborted one, as clients are told; sqlstate null: 40000
    sqlstate  text,
    reason    text,
    detail    text,
    hint      text,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (global_t IS NULL OR status = 'committed')
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000);
CREATE INDEX transactions_unfinished ON psp.transactions (xid) WHERE status IN ('running', 'waiting', 'pending');

-- Which T_temp a transaction has written to, so that its commit request asks no others. Lost with them in a crash.
CREATE UNLOGGED TABLE psp.written (
    xid      xid8 NOT NULL,
    table_id integer NOT NULL
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_threshold = -1);
CREATE INDEX ON psp.written (xid);

-- One row while every T_temp holds what was written. PostgreSQL empties unlogged tables when it recovers from a crash,
-- this one with the others: no row means that temporary data was lost and psp.make_pending has not been called since.
CREATE UNLOGGED TABLE psp.temp_alive (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    uuid NOT NULL DEFAULT gen_random_uuid()  -- from one loss of temporary data to the next
);
INSERT INTO psp.temp_alive DEFAULT VALUES;
