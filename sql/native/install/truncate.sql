-- TRUNCATE is a schema change of the cluster, too: it is certified against all who write the table, and runs at every semi-primary.
--
-- PostgreSQL fires no event trigger for it, so triggers of the tables do what plain_ddl.sql does for other statements. Those before it note
-- the tables. The first one after it makes a row of psp.schema_history. The statement's text is made from the tables: partitions, and
-- tables that CASCADE has added, have told themselves. So TRUNCATE may stand in a function.
--
-- At the primary, sql/primary/daemon/change_catalog.sql makes a row of psp.emptied_tables: older rows count no more, and
-- sql/primary/daemon/collect_emptied.sql removes them later.

-- What the statement of this transaction empties, until psp.follow_changes has seen it.
CREATE UNLOGGED TABLE psp.truncations (
    xid       xid8,
    relation  oid,
    table_id  integer NOT NULL,
    is_whole  boolean NOT NULL,  -- it is the captured table, and not a partition of it
    sequences jsonb NOT NULL,    -- {sequence: file}, of its columns: RESTART IDENTITY gives them other files
    PRIMARY KEY (xid, relation)
);

CREATE FUNCTION psp.refuse_truncate(schema name, relation name) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'feature_not_supported',
        MESSAGE = format('psp: TRUNCATE of %I.%I is not supported', schema, relation),
        DETAIL = CASE WHEN pg_trigger_depth() > 1 THEN 'It is in a trigger.'
                      ELSE 'It would empty the table at this semi-primary only.' END,
        HINT = CASE WHEN psp.goes_with_stream() THEN 'Use DELETE, or a TRUNCATE outside of triggers: that one goes to all semi-primaries.'
                    ELSE 'Use DELETE, or let the role change the schema. ' || psp.way_to_change() END;
END $$;

-- A partition is emptied alone: its rows are deleted, those of the others stay.
CREATE FUNCTION psp.capture_partition(relation regclass, table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement CONSTANT text := (SELECT c.statement FROM psp.own_commands c WHERE c.xid = pg_current_xact_id());
BEGIN
    PERFORM psp.end_own_commands();
    PERFORM psp.capture_keys(relation, psp.capture_facts(pg_partition_root(relation), table_id, '{}'), 'e');
    IF statement IS NOT NULL THEN
        PERFORM psp.begin_own_commands(statement);
    END IF;
END $$;

-- Before TRUNCATE, of each table and partition; the argument is the number of the captured table. It makes functions of other roles
-- (psp.read_as_owner), so it is a superuser's.
CREATE FUNCTION psp.on_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    table_id CONSTANT integer := TG_ARGV[0];
    is_part  CONSTANT boolean := (SELECT c.relispartition FROM pg_class c WHERE c.oid = TG_RELID);
    here     CONSTANT boolean := current_setting('session_replication_role') <> 'replica';
BEGIN
    IF table_id IN (@SCHEMA_HISTORY_ID@, @REQUESTS_ID@, @NOTIFICATIONS_ID@)
       OR NOT (psp.is_schema_change() OR here AND pg_trigger_depth() = 1 AND psp.goes_with_stream()) THEN
        PERFORM psp.refuse_truncate(TG_TABLE_SCHEMA, TG_TABLE_NAME);
    ELSIF NOT EXISTS (SELECT FROM psp.captured_relations r WHERE (r.relation, r.table_id) = (TG_RELID, TG_ARGV[0]::integer)) THEN
        PERFORM psp.refuse_change(TG_RELID, 'is emptied by a text that attaches or detaches it', 'TRUNCATE it by a statement of its own.');
    ELSIF here AND is_part AND NOT EXISTS (
        SELECT FROM psp.truncations t JOIN pg_partition_ancestors(TG_RELID) a ON a.relid = t.relation WHERE t.xid = pg_current_xact_id()) THEN
        PERFORM psp.capture_partition(TG_RELID, table_id);
    END IF;
    INSERT INTO psp.truncations
    SELECT pg_current_xact_id(), TG_RELID, table_id, NOT is_part,
           coalesce(jsonb_object_agg(s.oid::text, s.relfilenode) FILTER (WHERE s.relkind = 'S'), '{}')
      FROM pg_depend d JOIN pg_class s ON s.oid = d.objid
     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = TG_RELID AND d.deptype IN ('a', 'i')
        ON CONFLICT (xid, relation) DO NOTHING;
    RETURN NULL;
END $$;

-- A statement has emptied tables, and no row of psp.schema_history tells it yet.
CREATE FUNCTION psp.truncation_waits() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM psp.truncations t WHERE t.xid = pg_current_xact_id_if_assigned()) AND NOT psp.is_schema_change();
END $$;

-- After TRUNCATE. Like psp.ddl: with the rights and settings of its caller, so that these become the statement's.
CREATE FUNCTION psp.record_truncation() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF psp.truncation_waits() THEN
        INSERT INTO psp.new_statement (settings) VALUES (psp.statement_settings());
    END IF;
    RETURN NULL;
END $$;

-- Sequences of the columns that RESTART IDENTITY has restarted.
CREATE VIEW psp.restarted_sequences AS
SELECT s.oid AS sequence
  FROM psp.truncations t CROSS JOIN LATERAL jsonb_each_text(t.sequences) f(sequence, file) JOIN pg_class s ON s.oid = f.sequence::oid
 WHERE t.xid = pg_current_xact_id_if_assigned() AND s.relfilenode <> f.file::oid;

-- A table that has no key yet does not tell itself; it may refer to one of these.
CREATE FUNCTION psp.text_of_truncation() RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT 'TRUNCATE ' || string_agg(format('%s.%I', c.relnamespace::regnamespace, c.relname), ', '
                                             ORDER BY c.relnamespace::regnamespace::text, c.relname)
              FROM psp.truncations t JOIN pg_class c ON c.oid = t.relation
             WHERE t.xid = pg_current_xact_id()
               AND NOT EXISTS (SELECT FROM psp.truncations p JOIN pg_inherits i ON i.inhparent = p.relation
                                WHERE p.xid = t.xid AND i.inhrelid = t.relation))
           || CASE WHEN EXISTS (SELECT FROM psp.restarted_sequences) THEN ' RESTART IDENTITY' ELSE '' END
           || CASE WHEN EXISTS (SELECT FROM psp.tables_without_key t WHERE t.xid = pg_current_xact_id()) THEN ' CASCADE' ELSE '' END;
END $$;

-- A trigger of the table's owner may have written rows before the statement was noted: they are captured before it, and would be gone
-- elsewhere.
CREATE FUNCTION psp.check_truncation() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    filled CONSTANT regclass := (SELECT min(c.oid) FROM psp.truncations t JOIN pg_class c ON c.oid = t.relation AND c.relkind = 'r'
                                  WHERE t.xid = pg_current_xact_id() AND pg_relation_size(c.oid) > 0);
BEGIN
    IF filled IS NOT NULL THEN
        PERFORM psp.refuse_change(filled, 'has rows that a trigger has written into it while TRUNCATE emptied it',
                                  'Write them by a statement of its own, or in a trigger whose name sorts after psp_truncated.');
    END IF;
END $$;

-- What follows in the same transaction, at every semi-primary. A restarted sequence stands at the same number everywhere: each goes on to
-- the first number of its own.
CREATE FUNCTION psp.follow_truncations(here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.begin_own_commands();
    PERFORM psp.align_sequence(q.relation, q.base + q.increment * i.sp_id::numeric, q.stride)
       FROM psp.restarted_sequences r JOIN psp.sequences q ON q.relation = r.sequence CROSS JOIN psp.identity i;
    UPDATE psp.sequences SET moved_by = NULL WHERE moved_by = pg_current_xact_id();  -- the transaction may restart them again
    PERFORM psp.end_own_commands();
    IF here THEN
        PERFORM psp.announce_table(t.table_id, '02')
           FROM (SELECT DISTINCT n.table_id FROM psp.truncations n JOIN psp.tables USING (table_id)
                  WHERE n.xid = pg_current_xact_id() AND n.is_whole) t;
        PERFORM psp.announce_table(t.table_id, '00')
           FROM (SELECT n.table_id FROM psp.truncations n JOIN psp.tables USING (table_id)
                  WHERE n.xid = pg_current_xact_id() GROUP BY n.table_id HAVING NOT bool_or(n.is_whole)) t;
    END IF;
    DELETE FROM psp.truncations WHERE xid = pg_current_xact_id();
END $$;
