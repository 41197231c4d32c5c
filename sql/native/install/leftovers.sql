-- What CREATE INDEX CONCURRENTLY leaves when it fails: an index that is not valid. The other semi-primaries do not have it, so that no schema
-- change may name it, and none that arrives may find it in its way. docs/decisions/35.

-- Indexes that PostgreSQL has left when it did not make them to their end, or that it is making now. The other servers need not have them.
CREATE FUNCTION psp.unfinished_indexes() RETURNS TABLE (index oid, relation oid, schema oid, name name, label text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    RETURN QUERY SELECT c.oid, i.indrelid, c.relnamespace, c.relname, format('%s.%I', c.relnamespace::regnamespace, c.relname)
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE NOT i.indisvalid AND c.relkind = 'i' AND c.relpersistence <> 't' AND c.relnamespace <> ALL ('{psp,pg_catalog,pg_toast}'::regnamespace[]);
END $$;

-- Indexes on which other sessions work: REINDEX CONCURRENTLY and DROP INDEX CONCURRENTLY lock them from their first transaction to their last
-- one, and nobody should wait for that. (A session whose schema change has set one aside locks it, too, and has written psp.local_indexes.)
CREATE VIEW psp.indexes_worked_on AS
WITH locks AS MATERIALIZED (
    SELECT l.pid, l.relation, l.mode FROM pg_locks l
     WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT l.relation AS index FROM locks l
 WHERE l.mode IN ('ShareUpdateExclusiveLock', 'AccessExclusiveLock')
   AND NOT EXISTS (SELECT FROM locks o WHERE (o.pid, o.relation, o.mode) = (l.pid, 'psp.local_indexes'::regclass, 'RowExclusiveLock'));

-- Those that nobody makes, and no job will.
CREATE VIEW psp.leftovers AS
SELECT u.* FROM psp.unfinished_indexes() u
 WHERE NOT EXISTS (SELECT FROM psp.jobs_of_indexes j WHERE (j.schema, j.name) = (u.schema, u.name) AND j.state <> 'done')
   AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = u.index)
   AND u.index NOT IN (SELECT w.index FROM psp.indexes_worked_on w);

-- Before a schema change: what is here only counts as such, also when it has gone (psp.on_drop).
CREATE FUNCTION psp.note_leftovers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.local_indexes (index, is_leftover) SELECT u.index, true FROM psp.unfinished_indexes() u ON CONFLICT DO NOTHING;
END $$;

-- Where a schema change arrives: an index of which only a part was made here must not have a name that the statement may give to another, and
-- what changes a table could make it valid, here only. (That of a job which has not ended is the job's: psp.end_jobs_of, psp.rename_index_of_job.)
CREATE FUNCTION psp.drop_leftovers(statement text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    words   CONSTANT text[] := psp.words_of(statement);
    changed CONSTANT oid[] := CASE WHEN psp.without_comments(statement) ~* '^(alter|create\s+table)\M' THEN psp.relations_in(statement) END;
    found   text;
BEGIN
    SELECT string_agg(u.label, ', ') INTO found
      FROM psp.leftovers u WHERE psp.is_named(u.name, statement, words) OR u.relation = ANY (changed);
    IF found IS NOT NULL THEN
        PERFORM psp.run_own_command('DROP INDEX ' || found);
    END IF;
END $$;

-- Whether a schema change may drop this index although other servers need not have it: a DROP INDEX, here or where it arrives. (Of a longer
-- text psp.ddl does not know which indexes it drops.)
CREATE FUNCTION psp.may_drop_local_index(index oid, schema name, name name, command text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN command = 'DROP INDEX'
           AND (current_setting('session_replication_role') = 'replica' OR (psp.running_ddl()).depth IS NOT DISTINCT FROM 1
                OR EXISTS (SELECT FROM psp.touched_relations t
                            WHERE (t.xid, t.relation, t.how) = (pg_current_xact_id(), may_drop_local_index.index, 'dropped')))
           AND (psp.is_made_by_job(schema, name) OR psp.is_leftover(index));
END $$;

CREATE FUNCTION psp.is_leftover(index oid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.local_indexes l WHERE l.index = is_leftover.index AND l.is_leftover);
END $$;
