-- Rows and schema changes: how images of older definitions become rows of today, and how all rows of a table are captured. Used by
-- follow_changes.sql. docs/decisions/32.

-- ---- images of older definitions --------------------------------------------------------------------------------------------

-- The bytes that a new column's value in older rows has in an image, in hexadecimal digits; null: NULL. (PostgreSQL keeps the value as an array.)
CREATE FUNCTION psp.older_value(target regclass, number integer, encoding text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex' SET lc_monetary = 'C' SET timezone = 'UTC' SET standard_conforming_strings = on AS $$
DECLARE
    kept  record;
    bytes bytea;
BEGIN
    SELECT a.attmissingval::text AS list, format_type(a.atttypid, a.atttypmod) AS type INTO kept
      FROM pg_attribute a WHERE a.attrelid = target AND a.attnum = number AND a.atthasmissing;
    IF encoding = 'text' THEN
        bytes := convert_to((kept.list::text[])[1], 'UTF8');
    ELSIF kept.list IS NOT NULL THEN
        -- What comes after the number of columns, the type and the length.
        EXECUTE format('SELECT substring(record_send(ROW((%L::%s[])[1])) FROM 13)', kept.list, kept.type) INTO bytes;
    END IF;
    RETURN encode(bytes, 'hex');
END $$;

-- Writes down how images up to version - 1 become rows of today's definition.
CREATE FUNCTION psp.note_older_images(table_id integer, target regclass, version integer, was jsonb, now jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    steps jsonb;
BEGIN
    SELECT jsonb_agg(CASE WHEN o.value IS NOT NULL THEN jsonb_build_object('place', o.ordinality - 1)
                          ELSE jsonb_build_object('value', psp.older_value(target, (n.value ->> 'number')::integer, n.value ->> 'encoding'))
                          END ORDER BY n.ordinality)
      INTO steps
      FROM jsonb_array_elements(now -> 'columns') WITH ORDINALITY n
      LEFT JOIN jsonb_array_elements(was -> 'columns') WITH ORDINALITY o ON o.value -> 'number' = n.value -> 'number';
    IF was -> 'columns' = now -> 'columns' THEN
        RETURN;
    END IF;
    UPDATE psp.older_images i
       SET fields = (SELECT jsonb_agg(CASE WHEN f.value ? 'place' THEN i.fields -> (f.value ->> 'place')::integer ELSE f.value END
                                      ORDER BY f.ordinality)
                       FROM jsonb_array_elements(steps) WITH ORDINALITY f)
     WHERE i.table_id = note_older_images.table_id;
    -- It is there if an earlier statement of the same transaction has changed the table.
    INSERT INTO psp.older_images (table_id, until_version, fields) VALUES (table_id, version - 1, steps) ON CONFLICT DO NOTHING;
END $$;

-- ---- all rows of a table -----------------------------------------------------------------------------------------------------------

-- Tables whose rows the statement of this transaction has made or changed.
CREATE UNLOGGED TABLE psp.tables_to_capture (
    xid      xid8,
    table_id integer,
    PRIMARY KEY (xid, table_id)
);

-- Captures all rows of these tables, after the statement: as an update of all of them would be captured. It makes functions of other roles
-- (psp.read_as_owner), so it is a superuser's.
CREATE FUNCTION psp.capture_tables() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    facts jsonb;
BEGIN
    FOR facts IN
        SELECT psp.capture_facts(to_regclass(format('%I.%I', t.schema_name, t.table_name)), t.table_id, '{}')
          FROM psp.tables_to_capture c JOIN psp.tables t USING (table_id) WHERE c.xid = pg_current_xact_id()
    LOOP
        INSERT INTO psp.write_set (xid, table_id, op, payload)
        SELECT pg_current_xact_id(), (facts ->> 'table_id')::integer, CASE WHEN psp.is_key_in_image(facts) THEN 'i' ELSE 'u' END::"char", e
          FROM psp.read_as_owner((facts ->> 'relation')::regclass,
                                 format('SELECT %s FROM %s r', psp.entry_of(facts, 'r'), facts ->> 'relation')) e;
    END LOOP;
    DELETE FROM psp.tables_to_capture WHERE xid = pg_current_xact_id();
END $$;

-- Captures the keys of a relation's rows, of which a statement of a schema change takes other ones ('d') or takes away the rows ('e').
CREATE FUNCTION psp.capture_keys(relation regclass, facts jsonb, op "char") RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    SELECT pg_current_xact_id(), (facts ->> 'table_id')::integer, op, e
      FROM psp.read_as_owner(relation, format('SELECT pg_catalog.record_send(ROW(%s)) FROM %s r', psp.key_of(facts, 'r'), relation)) e
$$;

-- ---- rows that a statement writes itself ------------------------------------------------------------------------------------------

-- How many rows of each captured relation this transaction has written until now, by PostgreSQL's own counters: psp's triggers may be off while a
-- statement of a schema change runs (psp.prepare_tables). psp_refuse_replica stays on a relation until psp.follow_changes comes.
CREATE FUNCTION psp.written_rows() RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_object_agg(w.relation::text, w.n) FILTER (WHERE w.n > 0), '{}')
              FROM (SELECT t.tgrelid AS relation, pg_stat_get_xact_tuples_inserted(t.tgrelid) + pg_stat_get_xact_tuples_updated(t.tgrelid)
                                                  + pg_stat_get_xact_tuples_deleted(t.tgrelid) AS n
                      FROM pg_trigger t
                     WHERE t.tgfoid = 'psp.refuse_replica'::regproc AND t.tgrelid <> 'psp.schema_history'::regclass) w);
END $$;

-- before: psp.written_rows() before the statement; null: nobody has asked. (TRUNCATE lets the numbers begin again.)
CREATE FUNCTION psp.check_written_rows(before jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM jsonb_each(psp.written_rows()) w WHERE w.value > coalesce(before -> w.key, '0')) AND before IS NOT NULL THEN
        PERFORM psp.refuse_statement('cannot write rows of captured tables', 'Write them by statements of their own, in the same transaction.');
    END IF;
END $$;
