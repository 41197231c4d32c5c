-- Certifies one batch: one statement, one transaction, one fsync. Run by an executor with force_generic_plan and
-- without sequential scans, hash and merge joins: every access to a table is by its primary key. OFFSET 0 keeps the
-- look-ups as they are written: a plan that was made when the table was empty would otherwise read all of it for
-- each row.
--
-- Transactions, i = 1, 2, …:
--   $1 uuid[] tx_id   $2 int4[] sp_id   $3 int8[] global_t (if it commits)   $4 int8[] watermark
--   $5 int4[], $6 int4[] where its seen numbers begin and end in   $7 int8[] seen
--   $8 text[] reason: not null: it must not commit   $9 bytea[] write_set as it goes into the log
--   with a reason, where that is a lost key: $10 int4[] lost_table_id   $11 bytea[] lost_key   $12 int8[] winner_t
--   $13 int4[] winner_sp_id   $14 int4[] lost_use
-- The keys that they write or read, in the order of (table_id, key), of those that may commit. None is written by one and used by another:
--   $15 int4[] i   $16 int4[] table_id   $17 bytea[] key   $18 bool[] deleted, or a guard   $19 bytea[] image
--   $20 int8[] global_t of the version that the row replaces, where it is known (views mode)
--   $21 int4[] how it is used (psp.proto.UseKind) if it is not written
-- $22, $23: the first and the last number that was given to one of them; 0, 0: none was
--
-- Returns one row for each transaction that was decided before (with that decision) or that lost (with the key it
-- lost on). All others have committed, or aborted for the reason they came with. global_t 0: it was not decided, or was forgotten since.
-- It must not commit, and has aborted only if it was never committed: nothing is written down about it. (One that has lost may be a request that was
-- sent again, of one that has committed, and has lost against itself.)
WITH known AS MATERIALIZED (
    SELECT t.i, l.global_t, l.reason, l.lost_table_id, l.lost_key, l.winner_t, l.winner_sp_id, l.lost_use
    FROM unnest($1::uuid[]) WITH ORDINALITY AS t (tx_id, i)
    CROSS JOIN LATERAL (SELECT * FROM psp.tx_log AS o WHERE o.tx_id = t.tx_id OFFSET 0) AS l
), found AS MATERIALIZED (
    -- Every key's last version, looked up once: for the rule, and for where to write the next one. A key that is not
    -- here may have been deleted and collected: it counts as written by the last transaction that collected keys are from.
    SELECT r.i, r.table_id, r.key, r.deleted, r.image, r.known_t, r.use, d.place,
           coalesce(d.global_t, (SELECT collected_t FROM psp.log_start WHERE only_row)) AS last_t,
           coalesce(d.sp_id, 0) AS last_sp_id
    FROM unnest($15::int4[], $16::int4[], $17::bytea[], $18::bool[], $19::bytea[], $20::int8[], $21::int4[])
         AS r (i, table_id, key, deleted, image, known_t, use)
    LEFT JOIN LATERAL (
        SELECT o.ctid AS place, o.global_t, o.sp_id
        FROM psp.data AS o
        WHERE o.table_id = r.table_id AND o.key = r.key
        OFFSET 0
    ) AS d ON true
), lost AS MATERIALIZED (
    -- The rule: the key's last writer is neither below the watermark nor seen; or, where the version that the row replaces
    -- is known, newer than it (the thesis's Algorithm 1). The first such key counts.
    SELECT DISTINCT ON (f.i) f.i::int8 AS i, f.table_id, f.key, f.last_t AS winner_t, f.last_sp_id AS winner_sp_id,
           f.use AS lost_use
    FROM found AS f
    WHERE f.last_t > coalesce(f.known_t, ($4::int8[])[f.i])
      AND (f.known_t IS NOT NULL OR f.place IS NULL OR f.last_t <> ALL (($7::int8[])[($5::int4[])[f.i]:($6::int4[])[f.i]]))
    ORDER BY f.i, f.table_id, f.key
), forgotten AS MATERIALIZED (
    -- Of the others that do not commit it is known that they were never committed.
    SELECT t.i
    FROM unnest($1::uuid[], $8::text[]) WITH ORDINALITY AS t (tx_id, reason, i)
    WHERE (t.reason IS NOT NULL OR t.i IN (SELECT i FROM lost)) AND t.i NOT IN (SELECT i FROM known)
      AND NOT EXISTS (SELECT FROM psp.semi_primaries AS s
                      WHERE s.sp_id = psp.sp_of(t.tx_id) AND s.forgotten_xid < psp.xid_of(t.tx_id) OFFSET 0)
), out AS MATERIALIZED (
    SELECT i FROM known
    UNION ALL
    SELECT i FROM lost
    UNION ALL
    SELECT i FROM unnest($8::text[]) WITH ORDINALITY AS t (reason, i) WHERE reason IS NOT NULL
), updated AS (
    -- Nobody else writes these keys now (the scheduler's promise), so the place is still the row's, unless the row was
    -- collected in between: then the batch is refused below.
    UPDATE psp.data AS d
    SET global_t = ($3::int8[])[f.i], sp_id = ($2::int4[])[f.i], deleted = f.deleted, image = f.image
    FROM found AS f
    WHERE d.ctid = f.place AND f.use IS NULL AND f.i NOT IN (SELECT i FROM out)
    RETURNING true
), inserted AS (
    INSERT INTO psp.data (table_id, key, global_t, sp_id, deleted, image)
    SELECT f.table_id, f.key, ($3::int8[])[f.i], ($2::int4[])[f.i], f.deleted, f.image
    FROM found AS f
    WHERE f.place IS NULL AND f.use IS NULL AND f.i NOT IN (SELECT i FROM out)
), published AS (
    INSERT INTO psp.replication_log (global_t, tx_id, sp_id, write_set)
    SELECT t.global_t, t.tx_id, t.sp_id, t.write_set
    FROM unnest($3::int8[], $1::uuid[], $2::int4[], $9::bytea[])
         WITH ORDINALITY AS t (global_t, tx_id, sp_id, write_set, i)
    WHERE t.i NOT IN (SELECT i FROM out)
), decided AS (
    INSERT INTO psp.decided (first_t, last_t) SELECT $22::int8, $23::int8 WHERE $23 > 0
), logged AS (
    INSERT INTO psp.tx_log (tx_id, sp_id, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use, decided_ms)
    SELECT d.*, (SELECT clock_ms FROM psp.log_start WHERE only_row) FROM (
    SELECT t.tx_id, t.sp_id, t.global_t, NULL, NULL, NULL::bytea, NULL::int8, NULL::int4, NULL::int4
    FROM unnest($1::uuid[], $2::int4[], $3::int8[]) WITH ORDINALITY AS t (tx_id, sp_id, global_t, i)
    WHERE t.i NOT IN (SELECT i FROM out)
    UNION ALL
    SELECT ($1::uuid[])[l.i], ($2::int4[])[l.i], NULL, NULL, l.table_id, l.key, l.winner_t, l.winner_sp_id, l.lost_use
    FROM lost AS l
    WHERE l.i NOT IN (SELECT i FROM known UNION ALL SELECT i FROM forgotten)
    UNION ALL
    SELECT t.tx_id, t.sp_id, NULL, CASE WHEN t.lost_table_id IS NULL THEN t.reason END,
           t.lost_table_id, t.lost_key, t.winner_t, t.winner_sp_id, t.lost_use
    FROM unnest($1::uuid[], $2::int4[], $8::text[], $10::int4[], $11::bytea[], $12::int8[], $13::int4[], $14::int4[])
         WITH ORDINALITY AS t (tx_id, sp_id, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use, i)
    WHERE t.reason IS NOT NULL
      AND t.i NOT IN (SELECT i FROM known UNION ALL SELECT i FROM forgotten)
    ) AS d
)
SELECT i, global_t, reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use FROM known
UNION ALL
SELECT i, CASE WHEN i IN (SELECT i FROM forgotten) THEN 0 END, NULL, table_id, key, winner_t, winner_sp_id, lost_use
FROM lost WHERE i NOT IN (SELECT i FROM known)
UNION ALL
SELECT t.i, 0, CASE WHEN t.lost_table_id IS NULL THEN t.reason END, t.lost_table_id, t.lost_key, t.winner_t, t.winner_sp_id, t.lost_use
FROM unnest($8::text[], $10::int4[], $11::bytea[], $12::int8[], $13::int4[], $14::int4[])
     WITH ORDINALITY AS t (reason, lost_table_id, lost_key, winner_t, winner_sp_id, lost_use, i)
WHERE t.reason IS NOT NULL AND t.i IN (SELECT i FROM forgotten)
UNION ALL
SELECT psp.refuse_batch(), NULL, NULL, NULL, NULL, NULL, NULL, NULL
WHERE (SELECT count(*) FROM updated)
      <> (SELECT count(*) FROM found WHERE place IS NOT NULL AND use IS NULL AND i NOT IN (SELECT i FROM out))
