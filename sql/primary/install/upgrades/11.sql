-- From version 10. The number of copies that a decision must be on before it is told.
ALTER TABLE psp.cluster ADD COLUMN copies integer NOT NULL DEFAULT 0 CHECK (copies >= 0);
CREATE FUNCTION psp.synchronous_standbys() RETURNS TABLE (flush_lsn pg_lsn)
LANGUAGE sql STABLE AS $$
    SELECT w.flush_lsn
      FROM pg_stat_get_wal_senders() w
     WHERE w.sync_state IN ('sync', 'quorum') AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_get_replication_slots() s WHERE s.active_pid = w.pid AND s.slot_type = 'logical')
$$;
-- It is known which numbers are guards, and of which table.
ALTER TABLE psp.table_versions ADD COLUMN of_table integer;
-- The age of decisions is told by a clock that cannot jump, and it is known which transactions were forgotten. What is in
-- psp.tx_log counts as decided now.
ALTER TABLE psp.log_start ADD COLUMN clock_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE psp.tx_log DROP COLUMN decided_at;
ALTER TABLE psp.tx_log ADD COLUMN decided_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE psp.tx_log ALTER COLUMN decided_ms DROP DEFAULT;
CREATE INDEX tx_log_decided_ms ON psp.tx_log (decided_ms);
ALTER TABLE psp.semi_primaries ADD COLUMN forgotten_xid bigint NOT NULL DEFAULT 0;
CREATE FUNCTION psp.sp_of(tx_id uuid) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN get_byte(uuid_send(tx_id), 6) >> 4 = 8 THEN ('x' || right(tx_id::text, 8))::bit(32)::integer END
$$;
CREATE FUNCTION psp.xid_of(tx_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN get_byte(uuid_send(tx_id), 6) >> 4 = 8
                THEN ('x' || left(tx_id::text, 8) || substr(tx_id::text, 10, 4))::bit(48)::bigint END
$$;
ALTER TABLE psp.cluster ALTER COLUMN schema_version SET DEFAULT 11;
UPDATE psp.cluster SET schema_version = 11;
