-- Multi-Record Values (thesis, chapter 4): the schema psp_mrv. Applied by the first `psp mrv create` of a database,
-- dropped by the last `psp mrv drop`. It needs nothing but PostgreSQL (15 to 18). README.md tells how the parts play together.

CREATE SCHEMA psp_mrv;

-- The columns that are MRVs. Names, not OIDs, so that the rows mean the same at every semi-primary, where this table is
-- replicated as any other. The parameters of adjust and balance may be changed by UPDATE at any time: workers read them
-- again in each round.
CREATE TABLE psp_mrv.columns (
    column_id     integer PRIMARY KEY,
    schema_name   text NOT NULL,
    table_name    text NOT NULL,       -- the view that has taken the table's place
    base_table    text NOT NULL,       -- the table itself, renamed, in the same schema; other foreign keys refer to it
    column_name   text NOT NULL,
    value_type    text NOT NULL,       -- of the column, by format_type
    key_columns   text[] NOT NULL,     -- the primary key, in key order
    key_types     text[] NOT NULL,
    records_table text NOT NULL UNIQUE, -- in psp_mrv: (v, key columns…, rk); also the prefix of the column's functions
    split_column  text NOT NULL,       -- of base_table: whether the value stands in records, not in base_table itself
    lower_bound   numeric,             -- null: none
    bound_name    text,                -- the constraint that a violation (23514) names
    bound_is_own  boolean NOT NULL DEFAULT false, -- that constraint was made by psp mrv create, and drop removes it
    record_max    numeric,             -- no record holds more (or, without a bound, less than its negative): see README
    record_limit  integer NOT NULL,    -- nr_max at creation: record_max is made for no more records than that
    spread_from   numeric,             -- an amount to be added that is at least this is spread over several records
    -- adjust (thesis 4.3.3)
    strategy      text NOT NULL DEFAULT 'linear' CHECK (strategy IN ('none', 'binary', 'linear', 'quadratic')),
    nr_initial    integer NOT NULL DEFAULT 1,
    nr_min        integer NOT NULL DEFAULT 1,
    nr_max        integer NOT NULL DEFAULT 64,
    ar_goal       double precision NOT NULL DEFAULT 0.05 CHECK (ar_goal BETWEEN 0 AND 1),
    ar_min        double precision NOT NULL DEFAULT 0.01 CHECK (ar_min BETWEEN 0 AND 1),
    rt_goal_ms    double precision,    -- null: response time is not looked at
    rt_min_ms     double precision,
    min_average_amount_per_record numeric NOT NULL DEFAULT 0,
    -- balance (thesis 4.3.4)
    balance       text NOT NULL DEFAULT 'random' CHECK (balance IN ('none', 'all', 'random', 'minmax')),
    UNIQUE (schema_name, table_name, column_name),
    CHECK (1 <= nr_min AND nr_min <= nr_initial AND nr_initial <= nr_max AND nr_max <= 1024),
    CHECK (ar_min <= ar_goal),
    CHECK (rt_min_ms <= rt_goal_ms)
);

-- What clients, the semi-primary's daemon and the watch of locks report; the status worker takes the rows out again.
-- Unlogged: local to this server, not captured by psp, empty after a crash.
CREATE UNLOGGED TABLE psp_mrv.outcomes (
    reported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    column_id   integer NOT NULL,
    key         text[] NOT NULL,       -- the primary key's values as text, in key order
    commits     integer NOT NULL,
    aborts      integer NOT NULL,
    response_ms double precision       -- of all of them together; null: not measured
) WITH (autovacuum_vacuum_scale_factor = 0.5);

-- What the status worker has made of them, one row for each value heard of lately. Local, too.
CREATE UNLOGGED TABLE psp_mrv.status (
    column_id   integer NOT NULL,
    key         text[] NOT NULL,
    window_began timestamptz NOT NULL, -- the last whole window
    window_ended timestamptz NOT NULL,
    commits     bigint NOT NULL,
    aborts      bigint NOT NULL,
    response_ms double precision,      -- mean of those measured
    lock_waiters double precision NOT NULL DEFAULT 0, -- mean of the samples taken
    records     integer,               -- as adjust has last seen it
    last_change integer,               -- what adjust did last
    changed_at  timestamptz,
    PRIMARY KEY (column_id, key)
);

-- The workers of psp-mrv at this server: `psp mrv status` shows them.
CREATE UNLOGGED TABLE psp_mrv.workers (
    worker      text NOT NULL,         -- 'adjust', 'balance', 'status'
    runner      integer NOT NULL,
    pid         integer NOT NULL,      -- of the daemon
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    rounds      bigint NOT NULL DEFAULT 0,
    actions     bigint NOT NULL DEFAULT 0, -- values changed
    aborts      bigint NOT NULL DEFAULT 0, -- own transactions that were aborted (40001, 40P01, 55P03)
    last_error  text,
    PRIMARY KEY (worker, runner)
);

-- What an adjustment has done. outcome: 'split', 'added', 'removed', 'merged', 'unchanged', 'busy', 'gone'.
CREATE TYPE psp_mrv.adjusted AS (outcome text, records_before integer, records_after integer);
-- A value as it stands: 1 record is a value that is not split. amounts: above the lower bound.
CREATE TYPE psp_mrv.value_state AS (records integer, total numeric, smallest numeric, largest numeric, empty integer);
