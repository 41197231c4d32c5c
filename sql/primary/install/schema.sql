-- The primary's whole database. Applied by `psp` (cluster up, primary init), never by the daemon.
-- One schema, no table of the application: every row of every application table is one row of psp.data.
CREATE SCHEMA psp;

CREATE TABLE psp.cluster (
    only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id     uuid NOT NULL DEFAULT gen_random_uuid(),
    schema_version integer NOT NULL DEFAULT @PRIMARY_SCHEMA_VERSION@,  -- a change here raises it: upgrades/NUMBER.sql
    epoch          bigint NOT NULL DEFAULT 0,      -- the daemon adds one at each start
    mode           text NOT NULL DEFAULT 'native' CHECK (mode IN ('native', 'views')),
    slots          integer NOT NULL DEFAULT @SLOTS@,  -- stride of every sequence = most SPs there can ever be
    state          text NOT NULL DEFAULT 'empty' CHECK (state IN ('empty', 'adopting', 'adopted')),
    schema_ddl     text,                           -- the application's schema as plain SQL, for SPs that join
    catalog_version integer NOT NULL DEFAULT 1,    -- 1 as adopted; each schema change makes the next one
    copies         integer NOT NULL DEFAULT 0 CHECK (copies >= 0)  -- synchronous standbys that a decision must be on, at least
);
INSERT INTO psp.cluster DEFAULT VALUES;

-- psp primary switchover: on this timeline this server's psp-primary decides nothing more, so that a standby can be promoted in its place. On
-- another timeline it means nothing: the promoted standby has the row, too. ended_at: all that was ever decided here is before it in the WAL.
CREATE TABLE psp.hand_over (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    timeline text NOT NULL,
    limit_ms integer NOT NULL,  -- how long semi-primaries let COMMITs wait for the next primary
    ended_at timestamptz,
    target text NOT NULL,  -- the standby's address
    promoting_at timestamptz  -- from here on the standby may be promoted
);

-- Which start of the daemon decided which numbers: those from start_t to before the next one's. A database that was
-- restored from a backup goes on with another history, and an SP that has what was lost is told by it.
-- kept_t: the newest number when it began. start_t is smaller where numbers below kept_t were missing: common/epochs.h.
CREATE TABLE psp.epochs (
    epoch   bigint PRIMARY KEY,
    history uuid NOT NULL DEFAULT gen_random_uuid(),
    start_t bigint NOT NULL,  -- those that have decided nothing share it with the next one
    kept_t  bigint NOT NULL
);

-- Every SP that ever was. Numbers are never used again; an SP that left keeps its row.
-- join_t: it copies the table as of this, or its copy is not known to be on its disk yet; null: neither.
CREATE TABLE psp.semi_primaries (
    sp_id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text NOT NULL,
    zone          text NOT NULL DEFAULT '',
    registered_at timestamptz NOT NULL DEFAULT now(),
    released_at   timestamptz,
    acked_t       bigint NOT NULL DEFAULT -1,      -- everything <= this is on the SP's disk; -1: has not joined yet
    join_t        bigint,
    -- psp schema release has made a plain database of it, with everything up to this number; null: it has not, or not all
    released_t    bigint,
    -- The newest of its committed transactions that psp.tx_log has forgotten: of an older one, or this, nobody can say that it was never
    -- committed
    forgotten_xid bigint NOT NULL DEFAULT 0,
    -- As the daemon has told last; of no meaning while none runs
    is_connected  boolean NOT NULL DEFAULT false,
    seen_at       timestamptz                      -- when it was heard last, within 10 s while it is connected; null: never
);
CREATE UNIQUE INDEX semi_primaries_name ON psp.semi_primaries (name) WHERE released_at IS NULL;

-- The captured tables as they were adopted, with schema_ddl what an SP that joins begins with; then it runs the schema changes.
-- writeset/FORMAT.md describes the columns.
CREATE TABLE psp.tables (
    table_id    integer PRIMARY KEY,
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    columns     jsonb NOT NULL,
    key_columns jsonb NOT NULL,
    guards      jsonb NOT NULL DEFAULT '[]',
    form        bytea,                             -- null: not known, from before version 12
    UNIQUE (schema_name, table_name)
);

-- The numbers of tables and guards that schema changes have changed, given or dropped. All others are as adopted.
CREATE TABLE psp.table_versions (
    table_id   integer PRIMARY KEY,                -- of a table or a guard
    changed_in integer NOT NULL,                   -- the catalog version that its last change has made
    dropped    boolean NOT NULL,
    of_table   integer,                            -- the table that it belongs to, or is; null: not known, from before version 11
    form       bytea                               -- of a table; null: it was dropped, or from before version 12
);

-- Tables that TRUNCATE has emptied, until their older rows are removed from psp.data (collect_emptied.sql): rows below emptied_t
-- are gone. Up to the key swept_upto there are none any more.
CREATE TABLE psp.emptied_tables (
    table_id   integer PRIMARY KEY,
    emptied_t  bigint NOT NULL,
    swept_upto bytea NOT NULL DEFAULT ''
);

-- From which number on each catalog version holds; the first one from the beginning.
CREATE TABLE psp.catalog_versions (
    version  integer PRIMARY KEY,
    global_t bigint NOT NULL UNIQUE
);

-- Where each sequence stood at adoption; SP s draws base + increment * (s + slots * n).
CREATE TABLE psp.sequences (
    schema_name   text NOT NULL,
    sequence_name text NOT NULL,
    base          bigint NOT NULL,
    increment     bigint NOT NULL,
    PRIMARY KEY (schema_name, sequence_name)
);

-- The newest version of every row of every table, and the guard keys. Deleted rows and guards have no image, and are
-- collected when no snapshot lacks them (collect_deleted.sql): a key that is not here was last written by a transaction
-- up to log_start.collected_t, or never.
-- No index on global_t or image: it would make every update write indexes (and forbid HOT).
CREATE TABLE psp.data (
    table_id integer NOT NULL,
    key      bytea NOT NULL,
    global_t bigint NOT NULL,
    sp_id    integer NOT NULL,                     -- who wrote it; 0: adopted
    deleted  boolean NOT NULL DEFAULT false,       -- there is no row: it was deleted, or the key is a guard's
    image    bytea,
    PRIMARY KEY (table_id, key)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE psp.data ALTER COLUMN image SET STORAGE EXTENDED;
CREATE INDEX data_deleted ON psp.data (table_id, key) WHERE deleted;

-- Called by a batch that was about to write over a row which was collected after the batch's snapshot. The executor runs
-- the batch again.
CREATE FUNCTION psp.refuse_batch() RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE serialization_failure USING MESSAGE = 'a deleted key of this batch has been collected meanwhile';
END $$;

-- A semi-primary makes the ids of its transactions: uuids of version 8, which begin with six bytes of the transaction's xid8 and end
-- with four of the semi-primary's number. Of another id both functions return NULL.
CREATE FUNCTION psp.sp_of(tx_id uuid) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN get_byte(uuid_send(tx_id), 6) >> 4 = 8 THEN ('x' || right(tx_id::text, 8))::bit(32)::integer END
$$;
CREATE FUNCTION psp.xid_of(tx_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN get_byte(uuid_send(tx_id), 6) >> 4 = 8
                THEN ('x' || left(tx_id::text, 8) || substr(tx_id::text, 10, 4))::bit(48)::bigint END
$$;

-- The generation of a request in its image (sql/native/install/requests.sql): a record's length and two fields (number of type, length, value), a uuid
-- and the generation.
CREATE FUNCTION psp.request_generation(image bytea) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || encode(substr(image, 37, 4), 'hex'))::bit(32)::integer
$$;

-- Those that can take the server's place, and how far each has the WAL on its disk: a logical subscriber and pg_receivewal (which replays
-- nothing) cannot. None for a role that may not see it (pg_read_all_stats).
CREATE FUNCTION psp.synchronous_standbys() RETURNS TABLE (flush_lsn pg_lsn)
LANGUAGE sql STABLE AS $$
    SELECT w.flush_lsn
      FROM pg_stat_get_wal_senders() w
     WHERE w.sync_state IN ('sync', 'quorum') AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_get_replication_slots() s WHERE s.active_pid = w.pid AND s.slot_type = 'logical')
$$;

-- Every decision, so that a repeated request gets the same answer. Old ones are purged.
CREATE TABLE psp.tx_log (
    tx_id      uuid PRIMARY KEY,
    sp_id      integer NOT NULL,
    global_t   bigint,                             -- null: aborted, because of a conflict or for a reason
    reason     text,
    -- the key that it lost on and that key's writer, to give a repeated request the very same answer
    lost_table_id integer,
    lost_key      bytea,
    winner_t      bigint,
    winner_sp_id  integer,
    lost_use      smallint,                        -- psp.proto.UseKind; null: the key was written
    decided_ms    bigint NOT NULL                  -- log_start.clock_ms
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Not BRIN: once the space of purged rows is used again, its ranges hold old and new rows, and each purge reads them all.
CREATE INDEX tx_log_decided_ms ON psp.tx_log (decided_ms);

-- What was published, kept until every registered SP has acknowledged it.
CREATE TABLE psp.replication_log (
    global_t  bigint PRIMARY KEY,
    tx_id     uuid NOT NULL,
    sp_id     integer NOT NULL,
    write_set bytea NOT NULL                       -- serialised psp.proto.WriteSet
);
ALTER TABLE psp.replication_log ALTER COLUMN write_set SET STORAGE EXTERNAL;

-- The numbers of each batch that this daemon has decided, winners and losers: a number above settled_t that no batch has is
-- not decided. One row for each batch, soon deleted; no index, since only a start reads it.
CREATE TABLE psp.decided (
    first_t bigint NOT NULL,
    last_t  bigint NOT NULL
);

-- Where the log begins: everything <= truncated_t has been removed from it. Every number <= settled_t is decided.
-- Deleted keys were collected that transactions <= collected_t had written last, none that a later one had written.
-- clock_ms: for how long daemons have served the database. The age of a decision is told by it: the server's clock may jump.
CREATE TABLE psp.log_start (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    truncated_t bigint NOT NULL DEFAULT 0,
    settled_t   bigint NOT NULL DEFAULT 0,
    collected_t bigint NOT NULL DEFAULT 0,
    clock_ms    bigint NOT NULL DEFAULT 0
);
INSERT INTO psp.log_start DEFAULT VALUES;

-- Who has lost to other semi-primaries, and what is reserved for them. Written by the daemon about once a second while somebody loses,
-- so an old row says that nobody does.
CREATE UNLOGGED TABLE psp.losses (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    status     jsonb NOT NULL
) WITH (fillfactor = 50);

-- On which keys each semi-primary has lost transactions, as it has told last: psp.proto.LossReport as JSON.
CREATE UNLOGGED TABLE psp.loss_reports (
    sp_id      integer PRIMARY KEY,
    updated_at timestamptz NOT NULL,
    report     jsonb NOT NULL
) WITH (fillfactor = 50);

-- The last minute, hour and day of each. An older report says nothing of them any more.
CREATE VIEW psp.conflicts AS
SELECT s.name AS loser, make_interval(secs => (w.value ->> 'seconds')::integer) AS within, k.rank::integer,
       nullif(concat_ws('.', nullif(t.schema_name, ''), nullif(t.table_name, '')), '') AS table_name,
       nullif(t.key, '') AS key,
       replace(lower(substr(t.kind, 6)), '_', ' ') AS kind,
       t.losses,
       (w.value ->> 'error_max')::bigint AS losses_error,
       round(t.losses * 100.0 / nullif((w.value ->> 'losses')::bigint, 0), 1) AS percent,
       t.spent_ms AS waited_ms,
       (SELECT string_agg(format('%s: %s', x ->> 'name', x ->> 'losses'), ', ' ORDER BY (x ->> 'losses')::bigint DESC, x ->> 'name')
          FROM jsonb_array_elements(t.winners) x) AS winners,
       (SELECT string_agg(x, ', ') FROM jsonb_array_elements_text(t.changed_columns) x) AS columns,
       nullif(t.index_name, '') AS index_name,
       t.remedy,
       p.updated_at,
       nullif(t.query_id, 0) AS query_id
  FROM psp.loss_reports p
  JOIN psp.semi_primaries s USING (sp_id)
 CROSS JOIN jsonb_array_elements(p.report -> 'windows') w
 CROSS JOIN jsonb_array_elements(w.value -> 'keys') WITH ORDINALITY k(value, rank)
 CROSS JOIN jsonb_to_record(k.value) t(schema_name text, table_name text, index_name text, key text, kind text, losses bigint,
                                       spent_ms bigint, winners jsonb, changed_columns jsonb, remedy text, query_id bigint)
 WHERE p.updated_at + make_interval(secs => (w.value ->> 'seconds')::integer + 60) > clock_timestamp();

-- Where this server's data are, for psp-primary, which tells the free space if it runs at the same machine. Null: who made psp may not know it.
CREATE FUNCTION psp.data_directory() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN current_setting('data_directory');
EXCEPTION WHEN insufficient_privilege THEN
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION psp.data_directory() FROM PUBLIC;

-- As psp-primary has seen it last, every few seconds.
CREATE UNLOGGED TABLE psp.disk_space (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    free_bytes bigint NOT NULL,  -- for roles other than root
    size_bytes bigint NOT NULL
) WITH (fillfactor = 50);
