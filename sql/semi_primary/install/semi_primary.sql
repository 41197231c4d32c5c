-- What a semi-primary's database has in both modes: who it is, what is captured, where its stream stands. The first tables
-- of the psp schema; `psp schema adopt`, `join` and `convert` make them.
CREATE TABLE psp.identity (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id      uuid NOT NULL,
    sp_id           integer NOT NULL,
    name            text NOT NULL,
    mode            text NOT NULL DEFAULT 'native' CHECK (mode IN ('native', 'views')),
    capture         text NOT NULL DEFAULT 'sql' CHECK (capture IN ('sql', 'module')),  -- native: what writes keys and images of rows
    schema_version  integer NOT NULL DEFAULT @SEMI_PRIMARY_SCHEMA_VERSION@,  -- the daemon refuses all others
    token           text NOT NULL,      -- what requests of the commit hook and their answers are proved with; never sent
    hook_conninfo   text NOT NULL,      -- native: where the daemon's commit hook server listens (libpq conninfo)
    client_endpoint text,               -- views: where the daemon takes clients' requests (ZeroMQ); null: not known yet
    guarded         boolean NOT NULL DEFAULT true,  -- it has event triggers, which only a superuser can make; without them it takes part in no schema change
    slots           integer NOT NULL,   -- most semi-primaries that the cluster can have: sequences have this stride
    catalog_version integer NOT NULL DEFAULT 1,  -- of psp.tables, in the cluster: 1 as adopted, each schema change makes the next one
    last_number     integer NOT NULL,   -- the highest number that a table or a guard has ever had, in the cluster
    joining         boolean NOT NULL DEFAULT false  -- true until the copy from the primary is complete
);

-- The id of a transaction: a uuid of version 8, which begins with six bytes of its xid8 and ends with four of the semi-primary's
-- number. By these the primary knows of an id that it has not in its log whether its commit may have been forgotten
-- (sql/primary/install/schema.sql: psp.sp_of, psp.xid_of). The rest is of `digest`.
CREATE FUNCTION psp.transaction_uuid(x xid8, sp_id integer, digest bytea) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(substring(int8send(x::text::bigint) FROM 3)
                  || set_byte(set_byte(substring(digest FROM 1 FOR 6), 0, get_byte(digest, 0) & 15 | 128), 2, get_byte(digest, 2) & 63 | 128)
                  || int4send(sp_id), 'hex')::uuid
$$;

-- The catalog of captured tables: writeset/FORMAT.md describes the columns.
CREATE TABLE psp.tables (
    table_id     integer PRIMARY KEY,
    schema_name  text NOT NULL,
    table_name   text NOT NULL,
    columns      jsonb NOT NULL,
    key_columns  jsonb NOT NULL,
    guards       jsonb NOT NULL DEFAULT '[]',
    foreign_keys jsonb NOT NULL DEFAULT '[]',
    referenced   jsonb NOT NULL DEFAULT '[]',  -- by foreign keys: sql/native/install/foreign_keys.sql
    persistent   text,                 -- views mode: the table that holds what is committed, in the same schema
    UNIQUE (schema_name, table_name)
);

-- How images that were written under an older catalog become rows of today; only a copy has such images. writeset/FORMAT.md
-- describes the columns.
CREATE TABLE psp.older_images (
    table_id      integer,
    until_version integer,
    fields        jsonb NOT NULL,
    PRIMARY KEY (table_id, until_version)
);

-- The strides of sequences: this SP draws base + increment * (sp_id + slots * n), stride = increment * slots.
CREATE TABLE psp.sequences (
    schema_name   text NOT NULL,
    sequence_name text NOT NULL,
    base          bigint NOT NULL,     -- where the sequence stood at adoption
    increment     bigint NOT NULL,     -- what it was before, and is again after release
    stride        bigint NOT NULL,
    relation      oid NOT NULL,        -- it; a schema change may give it another name
    moved_by      xid8,                -- the transaction in which psp.align_sequences moved it last
    PRIMARY KEY (schema_name, sequence_name)
);

-- W and, for own commits above W, their proof of being in. Both change in the transaction whose effects they tell.
-- W only grows (but when a copy begins: psp.begin_copy), and each move is one more row, so that no snapshot has to look through the versions that other snapshots
-- still need. The newest row that a snapshot sees is the first one of the index. psp.forget_watermarks removes the others.
-- PostgreSQL looks at all entries of an index's page before it takes the first one. The filler makes them 45 instead of 360.
CREATE TABLE psp.watermarks (
    watermark bigint NOT NULL,
    filler    character(150) NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_threshold = 1000);
CREATE INDEX watermarks_newest ON psp.watermarks (watermark) INCLUDE (filler);
CREATE VIEW psp.watermark AS SELECT watermark FROM psp.watermarks ORDER BY watermark DESC LIMIT 1;

-- The daemon calls this about once a second.
CREATE FUNCTION psp.forget_watermarks() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM psp.watermarks WHERE watermark < (SELECT max(watermark) FROM psp.watermarks);
$$;

-- Statements that the daemon runs outside of the stream, and what became of them here (sql/native/install/jobs.sql; none in views mode).
CREATE TABLE psp.jobs (
    change      integer,
    statement_n integer,
    state       text NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed')),
    relation    oid,   -- the table of the index that it makes
    index_name  name,  -- which it has, or is to get
    attempts    integer NOT NULL DEFAULT 0,
    try_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error  text,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (change, statement_n)
);

-- Materialized views that a schema change could not fill here (sql/native/install/queries.sql; none in views mode), until REFRESH does.
CREATE TABLE psp.unfilled_views (
    relation oid PRIMARY KEY,
    error    text NOT NULL
);

-- Tables that a statement of a schema change has changed in another way than guarded_state.sql tells, until psp.follow_changes has seen
-- it. Of sequences: those that it may have restarted. `how`: rewritten (it has computed columns again); altered (a sequence); renamed or replaced (what the table relies on, perhaps with its name); stricter (an index or a publication that refuses
-- rows); prepared
-- (psp has made way for the statement); empty (a partition that may be dropped); to drop (one with rows, whose keys are captured); dropped (an index that psp.ddl drops); older (an index
-- that was there before the statement).
CREATE UNLOGGED TABLE psp.touched_relations (
    xid      xid8 NOT NULL,
    relation oid NOT NULL,
    how      text NOT NULL
);

-- Indexes that were made at this semi-primary only. (One that is gone may be left here: no other gets its OID soon.)
CREATE TABLE psp.local_indexes (
    index       oid PRIMARY KEY,
    is_leftover boolean NOT NULL DEFAULT false,  -- of CREATE INDEX CONCURRENTLY that has failed here
    relation    oid,
    name        name,
    old_name    name  -- that it gets back after the statement of a schema change (sql/native/install/local_indexes.sql)
);

-- What else was made at this semi-primary only: a schema change that arrives may need its name, or change what it depends on
-- (sql/native/install/obstacles.sql).
CREATE TABLE psp.local_objects (
    class    oid,
    object   oid,
    old_name name,  -- that it gets back after the statement of a schema change
    PRIMARY KEY (class, object)
);

-- Indexes of this semi-primary alone that a schema change could not run beside (sql/native/install/local_indexes.sql), and indexes that refused rows of
-- others (set_aside.sql there), until they are made again.
CREATE TABLE psp.lost_indexes (
    xid        xid8 NOT NULL,
    relation   oid NOT NULL,
    name       name NOT NULL,
    definition text NOT NULL,
    problem    text NOT NULL
);

-- Triggers that fire no longer for rows of other servers, where they have failed (sql/native/install/triggers_aside.sql), until they are enabled again.
CREATE TABLE psp.triggers_aside (
    relation oid NOT NULL,
    name     name NOT NULL,
    enabled  text NOT NULL,  -- as it was, and is at the other servers: A or R
    problem  text NOT NULL,
    PRIMARY KEY (relation, name)
);

-- Captured tables whose triggers have held up the apply worker until its session was terminated: it sets them aside when it writes such a table next.
CREATE TABLE psp.triggers_to_set_aside (
    table_id bigint PRIMARY KEY,
    problem  text NOT NULL
);

-- What else was set aside here because it refused rows of others (sql/native/install/set_aside.sql), and how it was before. psp.status tells while the
-- object is there.
CREATE TABLE psp.set_aside_objects (
    class      oid NOT NULL,
    object     oid NOT NULL,
    what       text NOT NULL,
    definition text NOT NULL,
    problem    text NOT NULL
);

-- Notifications that were not told here, since PostgreSQL's queue was half full (sql/native/install/notify.sql; none in views mode).
CREATE TABLE psp.dropped_notifications (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    dropped  bigint NOT NULL DEFAULT 0,
    last_at  timestamptz
);
INSERT INTO psp.dropped_notifications DEFAULT VALUES;

CREATE VIEW psp.set_aside_problems AS
SELECT format('index %I of %I.%I is dropped here, it was in the way of what others have committed: %s', l.name, n.nspname, t.relname, l.problem) AS problem
  FROM psp.lost_indexes l JOIN pg_class t ON t.oid = l.relation JOIN pg_namespace n ON n.oid = t.relnamespace
UNION ALL
SELECT a.what FROM psp.set_aside_objects a
 WHERE pg_describe_object(a.class, a.object, 0) IS NOT NULL
   AND NOT EXISTS (SELECT FROM pg_event_trigger e WHERE a.class = 'pg_event_trigger'::regclass AND a.object = e.oid AND e.evtenabled IN ('A', 'R'))
UNION ALL
SELECT 'notifications were not given to clients of this server: its queue was half full, since a session that has run LISTEN stayed in a transaction'
  FROM psp.dropped_notifications d WHERE d.last_at > now() - interval '1 hour';

-- Rows up to W are removed by psp.end_batch (apply_functions.sql), and when the apply worker connects
-- (sql/semi_primary/daemon/apply_forget_proofs.sql).
CREATE TABLE psp.applied (
    global_t bigint PRIMARY KEY,
    tx_id    uuid NOT NULL
);

-- The primary's epochs, as it told when it last let this SP in: which start of its daemon decided which numbers, at this
-- SP, too. On the disk before anything of a new epoch is submitted or applied.
CREATE TABLE psp.epochs (
    place    integer PRIMARY KEY,            -- in the primary's list; of those with the same start_t the last one has decided
    start_t  bigint NOT NULL,
    history  uuid NOT NULL,
    binding  boolean NOT NULL DEFAULT true   -- this SP follows only who has the last one; false after psp schema accept-loss
);

-- Written by the daemon about once a second; read by psp.status.
CREATE UNLOGGED TABLE psp.daemon_status (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    status     jsonb NOT NULL
) WITH (fillfactor = 50);

-- Which database of which server this is, in three parts with dots between them: server and database, timeline, folder (common/this_database.h). A standby
-- has no timeline; who is promoted has a newer one, and a copy that is restored elsewhere another folder. Fixed while the server runs.
-- (SECURITY DEFINER: only a superuser and members of pg_read_all_settings see data_directory. Where no superuser has adopted the database, nothing
-- tells a copy of the whole server from it.)
CREATE FUNCTION psp.this_database() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s.%s.%s', md5(format('%s %s', c.system_identifier, d.oid)),
                  CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
                  md5(CASE WHEN (SELECT i.guarded FROM psp.identity i) THEN current_setting('data_directory') END))
      FROM pg_control_system() c, pg_database d
     WHERE d.datname = current_database()
$$;

CREATE VIEW psp.status AS
SELECT i.name,
       i.sp_id,
       -- Also when the clock was set back: a daemon that serves writes it again.
       CASE WHEN d.updated_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() + interval '5 seconds' IS NOT TRUE
            THEN 'stopped'
            ELSE d.status ->> 'state' END                     AS state,
       w.watermark,
       (d.status ->> 'closed_t')::bigint                      AS closed_t,
       (d.status ->> 'lag_transactions')::bigint              AS lag_transactions,
       (d.status ->> 'lag_ms')::double precision              AS lag_ms,
       (d.status ->> 'commits_per_s')::double precision       AS commits_per_s,
       (d.status ->> 'aborts_per_s')::double precision        AS aborts_per_s,
       (d.status ->> 'rtt_ms')::double precision              AS rtt_ms,
       (d.status ->> 'commits_total')::bigint                 AS commits_total,
       (d.status ->> 'aborts_total')::bigint                  AS aborts_total,
       (d.status ->> 'waiting')::bigint                       AS waiting,
       -- It may quote rows.
       CASE WHEN pg_has_role('pg_monitor', 'USAGE') OR has_table_privilege('psp.identity', 'SELECT')
                 OR d.status ->> 'last_error' IS NULL THEN d.status ->> 'last_error'
            ELSE 'there is one, which members of pg_monitor can see' END AS last_error,
       d.updated_at,
       -- The daemon looks every ten minutes.
       nullif(concat_ws('; ', d.status ->> 'warnings',
                        (SELECT string_agg(p.problem, '; ') FROM psp.set_aside_problems p
                          WHERE position(p.problem IN coalesce(d.status ->> 'warnings', '')) = 0)), '') AS warnings,
       (d.status ->> 'losses_per_s')::double precision        AS losses_per_s,
       (d.status ->> 'losses_total')::bigint                  AS losses_total,
       CASE WHEN pg_has_role('pg_monitor', 'USAGE') OR has_table_privilege('psp.identity', 'SELECT')
                 OR d.status ->> 'reserved' IS NULL THEN d.status ->> 'reserved'
            ELSE 'there are keys, which members of pg_monitor can see' END AS reserved,
       coalesce((d.status ->> 'can_commit')::boolean
                AND d.updated_at BETWEEN clock_timestamp() - interval '5 seconds' AND clock_timestamp() + interval '5 seconds', false) AS can_commit,
       -- Means of the COMMITs of about the last minute that the primary has decided; null: there were none. The parts make commit_ms.
       -- network_ms: both ways. parked_ms: others' turns at the primary. queue_ms: others' keys, company for the batch, a free session.
       p.check_ms + p.network_ms + p.parked_ms + p.queue_ms + p.certify_ms + p.answer_ms AS commit_ms,
       p.check_ms, p.network_ms, p.parked_ms, p.queue_ms, p.certify_ms, p.answer_ms,
       p.p99_ms AS commit_p99_ms  -- 99 of 100 of them took no longer; up to an eighth too large
  FROM psp.identity i
 CROSS JOIN psp.watermark w
  LEFT JOIN psp.daemon_status d ON true
  LEFT JOIN LATERAL (SELECT (t.ms ->> 'check')::double precision AS check_ms, (t.ms ->> 'network')::double precision AS network_ms,
                            (t.ms ->> 'parked')::double precision AS parked_ms, (t.ms ->> 'queue')::double precision AS queue_ms,
                            (t.ms ->> 'certify')::double precision AS certify_ms, (t.ms ->> 'answer')::double precision AS answer_ms,
                            (t.ms ->> 'p99')::double precision AS p99_ms
                       FROM (SELECT d.status -> 'commit_parts_ms' AS ms) t) p ON true;

-- For health checks. At a standby of this server psp.daemon_status cannot be read.
CREATE FUNCTION psp.can_commit() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN RETURN false; END IF;
    RETURN coalesce((SELECT s.can_commit FROM psp.status s), false);
END $$;

-- Whether this transaction has written a row. Others that began later may have committed since it got its number: it may have waited for a hold.
CREATE FUNCTION psp.is_own_write(writer xid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own CONSTANT xid8 := pg_current_xact_id();
BEGIN
    IF age(writer) > age(own::xid) THEN
        RETURN false;
    END IF;
    RETURN pg_xact_status((own::text::bigint + age(own::xid) - age(writer))::text::xid8) = 'in progress';
END $$;

-- Materialized views and unlogged tables that were there at adoption, or of which an event trigger has told. EXPLAIN ANALYZE makes others.
CREATE TABLE psp.known_relations (
    relation oid PRIMARY KEY
);

-- Relations that were at this semi-primary only when a statement of a schema change began (sql/native/install/strangers.sql; none in views mode).
CREATE UNLOGGED TABLE psp.strangers (
    xid      xid8,
    relation oid,
    name     name NOT NULL,
    kind     text NOT NULL,
    PRIMARY KEY (xid, relation)
);

-- Captured tables whose owner was not the noted one when a statement of a schema change began (sql/native/install/reassigned.sql; none in
-- views mode). is_lent: while it runs they belong to the noted one.
CREATE UNLOGGED TABLE psp.reassigned (
    xid      xid8,
    relation oid,
    noted    oid NOT NULL,
    owner    oid NOT NULL,
    is_lent  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (xid, relation)
);

-- Tables of a schema change that have no primary key yet, or none any more. They are captured when they have one: in a later statement
-- of the same transaction, or the transaction does not commit.
CREATE UNLOGGED TABLE psp.tables_without_key (
    xid      xid8,
    relation oid,
    PRIMARY KEY (xid, relation)
);
