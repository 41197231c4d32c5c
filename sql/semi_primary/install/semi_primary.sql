-- What a semi-primary's database has in both modes: who it is, what is captured, where its stream stands. The first tables
-- of the psp schema; `psp schema adopt`, `join` and `convert` make them.
CREATE TABLE psp.identity (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cluster_id      uuid NOT NULL,
    sp_id           integer NOT NULL,
    name            text NOT NULL,
    mode            text NOT NULL DEFAULT 'native' CHECK (mode IN ('native', 'views')),
    schema_version  integer NOT NULL DEFAULT 6,  -- a change of a table here raises it; the daemon refuses all others
    token           text NOT NULL,      -- what requests of the commit hook and their answers are proved with; never sent
    hook_conninfo   text NOT NULL,      -- native: where the daemon's commit hook server listens (libpq conninfo)
    client_endpoint text,               -- views: where the daemon takes clients' requests (ZeroMQ); null: not known yet
    joining         boolean NOT NULL DEFAULT false  -- true until the copy from the primary is complete
);

-- The catalog of captured tables: writeset/FORMAT.md describes the columns.
CREATE TABLE psp.tables (
    table_id    integer PRIMARY KEY,
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    columns     jsonb NOT NULL,
    key_columns jsonb NOT NULL,
    guards      jsonb NOT NULL DEFAULT '[]',
    persistent  text,                  -- views mode: the table that holds what is committed, in the same schema
    UNIQUE (schema_name, table_name)
);

-- The strides of sequences: this SP draws base + increment * (sp_id + slots * n), stride = increment * slots.
CREATE TABLE psp.sequences (
    schema_name   text NOT NULL,
    sequence_name text NOT NULL,
    base          bigint NOT NULL,     -- where the sequence stood at adoption
    increment     bigint NOT NULL,     -- what it was before, and is again after release
    stride        bigint NOT NULL,
    moved_by      xid8,                -- the transaction in which psp.align_sequences moved it last
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

-- The primary's epochs, as it told when it last let this SP in: which start of its daemon decided which numbers, at this
-- SP, too. On the disk before anything of a new epoch is submitted or applied.
CREATE TABLE psp.epochs (
    start_t bigint PRIMARY KEY,
    history uuid NOT NULL
);

-- Written by the daemon about once a second; read by psp.status.
CREATE UNLOGGED TABLE psp.daemon_status (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    updated_at timestamptz NOT NULL,
    status     jsonb NOT NULL
) WITH (fillfactor = 50);

-- Which database of which server this is; a copy of it, restored elsewhere, is another one. Fixed while the server runs.
CREATE FUNCTION psp.this_database() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT md5(format('%s %s %s', c.system_identifier, d.oid, current_setting('data_directory')))
      FROM pg_control_system() c, pg_database d
     WHERE d.datname = current_database()
$$;

-- Moves every strided sequence that a column owns or has as its default past the largest value in the column, within
-- this SP's own class of values, and never back. After a crash PostgreSQL may hand out numbers again whose rows the
-- primary has kept. The daemon calls it when it has caught up. Returns how many had to move.
-- Values at the sequence's very end do not count: past them it could not go. To move, it keeps others from drawing
-- for a moment; when it cannot have that soon it fails with lock_not_available, has moved nothing and is called again.
-- (SECURITY DEFINER, as others that look at the application's tables and sequences, on which the daemon has no right.)
CREATE FUNCTION psp.advance_sequences() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' AS $$
DECLARE
    s       record;
    first   numeric;  -- this SP's first value
    extreme numeric;  -- the value in the table that is furthest along
    target  bigint;   -- the last value of the own class up to there
    drawn   bigint;
    moved   integer := 0;
BEGIN
    FOR s IN
        WITH strided AS (
            SELECT q.*, to_regclass(format('%I.%I', q.schema_name, q.sequence_name)) AS sequence FROM psp.sequences q
        ), feeds AS (
            SELECT objid AS sequence, refobjid AS relation, refobjsubid AS attnum FROM pg_depend
             WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
            UNION
            SELECT d.refobjid, f.adrelid, f.adnum
              FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
             WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
        )
        SELECT q.base, q.increment, q.stride, q.sequence, f.relation::regclass AS relation, a.attname AS name, i.sp_id,
               EXISTS (SELECT FROM pg_index x WHERE x.indrelid = f.relation AND x.indkey[0] = f.attnum AND x.indisvalid
                       AND x.indpred IS NULL) AS indexed,
               CASE WHEN q.stride > 0 THEN format('max(%I) FROM %s WHERE %I <= %s::bigint', a.attname, f.relation::regclass,
                                                  a.attname, quote_literal(p.seqmax - q.stride))
                    ELSE format('min(%I) FROM %s WHERE %I >= %s::bigint', a.attname, f.relation::regclass, a.attname,
                                quote_literal(p.seqmin - q.stride)) END AS query
          FROM strided q
          JOIN feeds f ON f.sequence = q.sequence
          JOIN pg_sequence p ON p.seqrelid = q.sequence
          JOIN pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.attnum AND NOT a.attisdropped
          JOIN pg_type t ON t.oid = a.atttypid
         CROSS JOIN psp.identity i
         WHERE (SELECT relkind FROM pg_class WHERE oid = f.relation) IN ('r', 'p')  -- not the views of views mode
           AND coalesce(nullif(t.typbasetype, 0), t.oid) IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'numeric'::regtype)
    LOOP
        IF NOT s.indexed THEN
            RAISE LOG 'psp: %.% has no index: the whole table is read for sequence %', s.relation, s.name, s.sequence;
        END IF;
        EXECUTE 'SELECT ' || s.query INTO extreme;
        first := s.base + s.increment * s.sp_id::numeric;
        CONTINUE WHEN extreme IS NULL OR (extreme - first) * sign(s.stride) < 0;
        target := first + floor((extreme - first) / s.stride) * s.stride;
        EXECUTE format('SELECT last_value FROM %s', s.sequence) INTO drawn;
        CONTINUE WHEN (target - drawn::numeric) * sign(s.stride) <= 0;
        EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', s.sequence, s.stride);  -- for its lock
        EXECUTE format('SELECT last_value FROM %s', s.sequence) INTO drawn;
        CONTINUE WHEN (target - drawn::numeric) * sign(s.stride) <= 0;
        PERFORM setval(s.sequence, target);
        RAISE LOG 'psp: sequence % moved from % to %: %.% holds %', s.sequence, drawn, target, s.relation, s.name, extreme;
        moved := moved + 1;
    END LOOP;
    RETURN moved;
END $$;

CREATE VIEW psp.status AS
SELECT i.name,
       i.sp_id,
       CASE WHEN d.updated_at IS NULL OR d.updated_at < clock_timestamp() - interval '5 seconds' THEN 'stopped'
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
       d.status ->> 'warnings'                                AS warnings
  FROM psp.identity i
 CROSS JOIN psp.watermark w
  LEFT JOIN psp.daemon_status d ON true;
