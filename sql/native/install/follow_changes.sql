-- After a statement of a schema change (schema_history.sql): tables that it has changed get their capture again, those that it has
-- created get one, and sequences get their strides. Every semi-primary does this after each statement, on the same catalog, so
-- all give the same numbers. docs/decisions/32.
--
-- `here`: the statement runs here first. What stands in its way is refused then, and only then: a server that joins runs the
-- statements while its tables have no rows yet, and must come to the same result.

-- The next number for a table or a guard. None is given twice.
CREATE FUNCTION psp.take_number() RETURNS integer
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE psp.identity SET last_number = last_number + 1 RETURNING last_number
$$;

-- The numbers of a table's guards, new ones for the indexes that are not in `known`.
CREATE FUNCTION psp.keep_guard_numbers(target oid, known jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index   text;
    numbers jsonb := '{}';
BEGIN
    FOR index IN SELECT g.name FROM psp.guard_names(target) g(name) LOOP
        numbers := numbers || jsonb_build_object(index, coalesce((known ->> index)::integer, psp.take_number()));
    END LOOP;
    RETURN numbers;
END $$;

-- Tells the primary, with the transaction's write-set, what became of a table: it was changed ('00'), dropped ('01') or emptied ('02').
CREATE FUNCTION psp.announce_table(table_id integer, what text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    SELECT pg_current_xact_id(), announce_table.table_id, 'c',
           decode(what, 'hex')
           || coalesce((SELECT int4send(count(g.value)::integer) || coalesce(string_agg(int4send((g.value ->> 'guard_id')::integer), ''), '')
                               || psp.form_of(t.table_id)
                          FROM psp.tables t LEFT JOIN jsonb_array_elements(t.guards) g ON true
                         WHERE t.table_id = announce_table.table_id GROUP BY t.table_id), '')
$$;

-- A table that was captured, and has the columns and the key that it had.
CREATE FUNCTION psp.follow_renewed(table_id integer, target regclass, was jsonb, effort integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.check_table(target);
    IF effort <= 0 THEN
        PERFORM psp.note_table(table_id);
    ELSE
        PERFORM psp.renew_capture(target, table_id, psp.keep_guard_numbers(target, was -> 'guards'));
    END IF;
END $$;

-- A table that was captured and is another one now. Its old capture is gone.
CREATE FUNCTION psp.follow_changed(table_id integer, target regclass, was jsonb, version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now jsonb;
BEGIN
    PERFORM psp.check_table(target);
    PERFORM psp.create_capture(target, table_id, psp.keep_guard_numbers(target, was -> 'guards'));
    now := psp.noted_definition(table_id);
    IF here AND psp.has_rows(target) THEN
        IF psp.are_keys_new(target, was, now) AND NOT EXISTS (
            SELECT FROM psp.tables_to_capture c WHERE (c.xid, c.table_id) = (pg_current_xact_id(), follow_changed.table_id)) THEN
            PERFORM psp.refuse_change(target, 'has rows, which would get other keys',
                                      'Say so in a statement that names the table and the columns.');
        ELSIF psp.are_rows_new(target, was, now) OR psp.has_new_partitions(target, was) THEN
            INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), follow_changed.table_id) ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    PERFORM psp.note_older_images(table_id, target, version, was, now);
END $$;

-- The number of the captured table of which this one was a partition. PostgreSQL leaves it the triggers that do not come from the whole.
CREATE FUNCTION psp.whole_of_former_partition(target regclass) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT substring(encode(t.tgargs, 'escape') FROM '^[0-9]+')::integer
              FROM pg_trigger t WHERE t.tgrelid = target AND t.tgname = 'psp_truncate');
END $$;

CREATE FUNCTION psp.follow_created(target regclass, here boolean) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    table_id CONSTANT integer := psp.take_number();
BEGIN
    PERFORM psp.check_table(target);
    IF here AND psp.has_rows(target) THEN
        -- Rows of a partition leave the whole.
        PERFORM psp.capture_keys(target, psp.capture_facts(format('%I.%I', t.schema_name, t.table_name)::regclass, t.table_id, '{}'), 'e')
           FROM psp.tables t WHERE t.table_id = psp.whole_of_former_partition(target);
        INSERT INTO psp.tables_to_capture VALUES (pg_current_xact_id(), table_id);
    END IF;
    PERFORM psp.create_capture(target, table_id, psp.keep_guard_numbers(target, '{}'));
    IF NOT here THEN
        PERFORM psp.write_in_worker(format('SELECT psp.apply_clear_%s()', table_id));  -- its rows come from where the statement ran first
    END IF;
    RETURN table_id;
END $$;

CREATE FUNCTION psp.has_key(target oid) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = target AND i.indisprimary AND i.indisvalid)
$$;

-- The statement that gives a key to a table of this transaction that has none; '': it cannot have one. Null: it has one by now.
CREATE FUNCTION psp.key_to_add(target oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(k.add_key, '') FROM psp.tables_without_key t JOIN psp.key_facts k USING (relation)
             WHERE (t.xid, t.relation) = (pg_current_xact_id_if_assigned(), target));
END $$;

-- At COMMIT. Not SECURITY DEFINER: with psp.add_keys = on it gives the key by a statement of the session's role, like psp.ddl. (From
-- PostgreSQL 18 on a deferred trigger runs as the role that has queued it, here the owner of psp, who tells the session's role.)
CREATE FUNCTION psp.check_key_has_come() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    addition CONSTANT pg_catalog.text := psp.key_to_add(NEW.relation);
BEGIN
    IF addition OPERATOR(pg_catalog.<>) '' AND pg_catalog.current_setting('psp.add_keys', true) OPERATOR(pg_catalog.=) 'on' THEN
        IF psp.role_of_statement() OPERATOR(pg_catalog.=) current_user THEN
            INSERT INTO psp.new_statement (settings, statement) VALUES (psp.statement_settings(), addition);
        ELSE
            INSERT INTO psp.new_statement (role, settings, statement)
            VALUES (psp.role_of_statement(), psp.statement_settings() OPERATOR(pg_catalog.-) 'schemas', addition);
        END IF;
    ELSIF addition IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format('psp: table %s has no primary key', NEW.relation::pg_catalog.regclass),
            HINT = pg_catalog.concat('Add a primary key, by this statement or a later one of the same transaction',
                                     CASE WHEN addition OPERATOR(pg_catalog.=) ''
                                          THEN '. psp.add_keys cannot: there is a column psp_key, or it is partitioned by what may be NULL.'
                                          ELSE '; or SET psp.add_keys = on: then it gets a column psp_key.' END,
                                     ' A dump: psp schema load FILE, or psql or pg_restore with --single-transaction.');
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER psp_check_key_has_come AFTER INSERT ON psp.tables_without_key
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION psp.check_key_has_come();

-- Elsewhere the table has no rows until its key has come and the statement has ended: a foreign key to them would fail there. One that
-- was local may have references of tables that still are.
CREATE FUNCTION psp.check_not_referenced(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
                WHERE k.contype = 'f' AND k.confrelid = target AND c.relpersistence = 'u') THEN
        PERFORM psp.refuse_change(target, 'has a foreign key of an unlogged table to it, which would be checked at one semi-primary only',
                                  'Drop the foreign key first.');
    ELSIF EXISTS (SELECT FROM psp.tables_without_key t WHERE (t.xid, t.relation) = (pg_current_xact_id(), target))
       AND EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = target AND k.conrelid <> target)
       AND psp.has_rows(target) THEN
        PERFORM psp.refuse_change(target, 'has rows and foreign keys to it, and has had no primary key in this transaction until now',
                                  'Make foreign keys by statements after that of the primary key. '
                                  'ALTER TABLE … DROP CONSTRAINT …, ADD PRIMARY KEY … takes another one in one statement.');
    END IF;
END $$;

-- Elsewhere its rows come from where the statement ran first, when it has a key: rows made here could be others, and stand in the key's way.
CREATE FUNCTION psp.wait_for_key(target regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO psp.tables_without_key VALUES (pg_current_xact_id(), target) ON CONFLICT DO NOTHING;
    IF psp.has_loud_triggers(target) THEN
        PERFORM psp.refuse_change(target, 'has no primary key, and a trigger that is ENABLE ALWAYS or REPLICA', 'Enable the trigger so when the key is there.');
    ELSIF current_setting('session_replication_role') = 'replica' THEN
        PERFORM psp.read_as_owner(target, format('DELETE FROM %s RETURNING NULL::pg_catalog.bytea', target));
    ELSIF psp.whole_of_former_partition(target) IS NOT NULL THEN  -- nobody would tell that its rows have left the whole
        PERFORM psp.refuse_change(target, 'is a partition no more, and has no primary key', 'Detach it by a statement of its own.');
    END IF;
END $$;

CREATE FUNCTION psp.follow_tables(version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed CONSTANT jsonb := (
        SELECT coalesce(jsonb_agg(jsonb_build_object('table_id', c.table_id, 'target', c.target,
                                                     'was', psp.noted_definition(c.table_id), 'effort', c.effort)
                                  ORDER BY c.table_id), '[]')
          FROM psp.changed_tables() c);
    change  jsonb;
    target  regclass;
    numbers integer[] := '{}';
BEGIN
    IF here THEN  -- one that was captured does not become a local one that is full here and empty elsewhere
        PERFORM psp.check_table(c.oid) FROM pg_class c
          WHERE c.relpersistence = 'u'
            AND (c.oid IN (SELECT (e.value ->> 'target')::oid FROM jsonb_array_elements(changed) e)
                 OR c.oid IN (SELECT t.relation FROM psp.tables_without_key t WHERE t.xid = pg_current_xact_id()));
    END IF;
    -- All go before one comes back: two may have exchanged their names. A table without a key passes for one that is gone.
    PERFORM psp.drop_capture((c.value ->> 'table_id')::integer) FROM jsonb_array_elements(changed) c
      WHERE c.value -> 'effort' = '2' OR NOT psp.has_key((c.value ->> 'target')::oid);
    FOR change IN SELECT c.value FROM jsonb_array_elements(changed) c LOOP
        target := (change ->> 'target')::oid::regclass;
        IF target IS NULL OR NOT psp.has_key(target) THEN
            DELETE FROM psp.older_images i WHERE i.table_id = (change ->> 'table_id')::integer;
        ELSIF change -> 'effort' <> '2' THEN
            PERFORM psp.follow_renewed((change ->> 'table_id')::integer, target, change -> 'was', (change ->> 'effort')::integer);
        ELSE
            PERFORM psp.follow_changed((change ->> 'table_id')::integer, target, change -> 'was', version, here);
        END IF;
        IF change -> 'effort' <> '-1' THEN
            numbers := numbers || (change ->> 'table_id')::integer;
        END IF;
    END LOOP;
    PERFORM psp.note_new_labels();
    FOR target IN
        WITH unknown AS MATERIALIZED (SELECT * FROM psp.unknown_relations u WHERE u.kind IN ('r', 'p'))
        SELECT u.relation FROM unknown u JOIN pg_class c ON c.oid = u.relation
         WHERE NOT c.relispartition AND NOT psp.is_stranger(u.relation) ORDER BY u.schema_name, u.relation_name
    LOOP
        IF psp.has_key(target) THEN
            numbers := numbers || psp.follow_created(target, here);
        ELSE
            PERFORM psp.wait_for_key(target);
        END IF;
        IF here THEN
            PERFORM psp.check_not_referenced(target);
        END IF;
    END LOOP;
    DELETE FROM psp.tables_without_key t
     WHERE t.xid = pg_current_xact_id()
       AND NOT EXISTS (SELECT FROM psp.unknown_relations u JOIN pg_class c ON c.oid = u.relation
                        WHERE u.relation = t.relation AND NOT c.relispartition);
    IF numbers <> '{}' THEN  -- a foreign key does not change without the table at one of its ends
        numbers := ARRAY(SELECT unnest(numbers || psp.follow_references(psp.with_other_ends(numbers))) UNION SELECT unnest(psp.ends_of_rewritten()) ORDER BY 1);
    END IF;
    IF here THEN
        PERFORM psp.announce_table(n.table_id, CASE WHEN EXISTS (SELECT FROM psp.tables t WHERE t.table_id = n.table_id)
                                                    THEN '00' ELSE '01' END)
           FROM unnest(numbers) n(table_id);
    END IF;
END $$;

-- Sequences, as for tables. What a sequence draws next is no part of the schema.
CREATE FUNCTION psp.follow_sequences(here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    WITH gone AS (
        DELETE FROM psp.sequences q
         WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                            WHERE (c.oid, c.relname, n.nspname) = (q.relation, q.sequence_name, q.schema_name))
        RETURNING *)
    INSERT INTO psp.sequences  -- those with another name
    SELECT n.nspname, c.relname, g.base, g.increment, g.stride, g.relation, g.moved_by
      FROM gone g JOIN pg_class c ON c.oid = g.relation JOIN pg_namespace n ON n.oid = c.relnamespace;
    PERFORM psp.note_sequences();
    PERFORM psp.begin_own_commands();
    FOR s IN
        SELECT u.relation::regclass AS name, d.* FROM psp.unknown_relations u JOIN pg_sequence d ON d.seqrelid = u.relation
         ORDER BY u.schema_name, u.relation_name
    LOOP
        PERFORM psp.stride_sequence(s.name, coalesce(pg_sequence_last_value(s.name), s.seqstart - s.seqincrement), s.seqincrement);
    END LOOP;
    PERFORM psp.end_own_commands();
    PERFORM psp.note_sequences();
    IF here THEN
        PERFORM psp.check_sequences();
    END IF;
END $$;

-- After one statement of the change that makes this version of the catalog.
CREATE FUNCTION psp.follow_changes(version integer, here boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM psp.take_back_grants(),
            psp.check_partitions_have_gone(),
            psp.follow_tables(version, here),
            psp.follow_truncations(here),
            psp.follow_sequences(here),
            psp.check_all('psp.ddl'),
            psp.check_owners('psp.ddl'),
            psp.check_functions('psp.ddl');
    DELETE FROM psp.touched_relations WHERE xid = pg_current_xact_id();
    PERFORM psp.keep_noted_owners(), psp.forget_strangers(), psp.follow_local_indexes(), psp.bring_local_indexes_back();
    UPDATE psp.identity SET catalog_version = version;
END $$;
