-- Schema changes of one semi-primary are refused: they would reach this one only. `psp schema adopt` creates these
-- event triggers last (ddl_start.sql), `psp schema release` drops them first. After each command the guard looks
-- at what the catalog says (guarded_state.sql), not at what the command is called: captured relations and strided
-- sequences are as they were, and there is no other permanent table or sequence. What does not touch them is
-- allowed, and stays local. Statements that psp.ddl runs may change tables and sequences: psp.follow_changes
-- judges that, also of what CHECKs, indexes and types of captured tables rely on. They may not touch psp itself.

-- The relation that an object of pg_event_trigger_ddl_commands() is or belongs to; null: none.
CREATE FUNCTION psp.relation_of(class oid, object oid) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE class
        WHEN 'pg_class'::regclass
            THEN coalesce((SELECT i.indrelid FROM pg_index i WHERE i.indexrelid = object), object)
        WHEN 'pg_trigger'::regclass THEN (SELECT t.tgrelid FROM pg_trigger t WHERE t.oid = object)
        WHEN 'pg_rewrite'::regclass THEN (SELECT r.ev_class FROM pg_rewrite r WHERE r.oid = object)
        WHEN 'pg_constraint'::regclass THEN (SELECT k.conrelid FROM pg_constraint k WHERE k.oid = object)
        WHEN 'pg_attrdef'::regclass THEN (SELECT f.adrelid FROM pg_attrdef f WHERE f.oid = object)
    END
$$;

-- What psp calls its triggers on captured relations.
CREATE FUNCTION psp.is_trigger_name(name name) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT name ~ '^(psp_|PSP_ended$)'
$$;

-- Rows that are written while psp's triggers are off would be captured nowhere. (ENABLE TRIGGER USER leaves those of the replica role to ordinary
-- sessions. They capture nothing, and psp.follow_changes puts them right.)
CREATE FUNCTION psp.check_capture_is_on(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
                WHERE t.tgrelid = relation AND f.pronamespace = 'psp'::regnamespace
                  AND (t.tgenabled = 'D' OR f.proname ~ '^capture_' AND t.tgenabled <> 'O')) THEN
        PERFORM psp.refuse_ddl(object, command, 'It would switch off psp''s triggers.', 'Disable triggers by their names.');
    END IF;
END $$;

-- Whether the statement of a schema change may have restarted a sequence, by its own words or by a function that it runs. Where setval has put
-- one, which is out of its class for a moment (a dump is loaded: rows, setval, the primary key), is not the statement's fault: an ALTER TABLE alone, whose
-- actions run nothing of a user's.
CREATE FUNCTION psp.may_restart_sequences() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT EXISTS (SELECT FROM psp.own_commands c
                    WHERE c.xid = pg_current_xact_id_if_assigned()
                      AND NOT (c.statement ~* '^(\s|--[^\n]*\n)*alter\s+table\M[^;]*;?\s*$'
                               AND c.statement !~* '\m(attach|check|column|default|exclude|generated|identity|restart|set|type|using|validate)\M'))
$$;

-- One command that concerns something permanent.
CREATE FUNCTION psp.check_command(
    class oid, object oid, identity text, command text, schema text, in_extension boolean
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation oid := psp.relation_of(class, object);
    reliant  text;
BEGIN
    IF schema = 'psp' OR (class, object) = ('pg_namespace'::regclass, 'psp'::regnamespace)
       OR class = 'pg_extension'::regclass AND command <> 'CREATE EXTENSION'
          AND psp.is_needed_extension((SELECT e.extname FROM pg_extension e WHERE e.oid = object)) THEN
        PERFORM psp.refuse_ddl(identity, command);
    END IF;
    IF relation <> 0 AND psp.is_schema_change() THEN
        PERFORM psp.check_capture_is_on(relation, identity, command), psp.check_local_references(relation, identity, command);
        IF command IN ('ALTER SEQUENCE', 'ALTER TABLE') AND psp.may_restart_sequences() THEN
            INSERT INTO psp.touched_relations SELECT pg_current_xact_id(), q.sequence, 'altered' FROM psp.sequences_of(relation) q(sequence);
        END IF;
        IF NOT psp.may_rename_index_of_job(object, command) THEN
            PERFORM psp.check_local_index(object, identity, command);
        END IF;
        IF command = 'ALTER TABLE' THEN  -- CLUSTER ON
            PERFORM psp.check_local_index(i.indexrelid, identity, command) FROM pg_index i WHERE i.indrelid = relation AND i.indisclustered;
        END IF;
    ELSIF relation <> 0 THEN
        PERFORM psp.check_touched(relation, identity, command);
        IF command = 'CREATE INDEX' THEN
            IF psp.is_captured(relation) THEN
                PERFORM psp.check_index(object, identity, command);
            END IF;
            PERFORM psp.note_local_index(object, relation);
        END IF;
        IF command IN ('CREATE INDEX', 'ALTER INDEX') AND psp.is_captured(relation) THEN
            PERFORM psp.check_parts(object, identity, command);
        END IF;
        PERFORM psp.follow_local_indexes();
    END IF;
    IF psp.is_schema_change() THEN
        PERFORM psp.touch_reliant(class, object, command), psp.note_stricter(class, object, relation, command);
    ELSIF command = 'ALTER SCHEMA' THEN
        PERFORM psp.check_schema_of_code(object, identity, command);
    ELSIF NOT in_extension  -- an extension that is upgraded makes its functions again
       AND class NOT IN ('pg_namespace'::regclass, 'pg_extension'::regclass, 'pg_collation'::regclass)
       AND NOT psp.is_captured(relation) THEN
        reliant := psp.relied_on_by(class, object);
        IF reliant IS NOT NULL THEN
            PERFORM psp.refuse_ddl(identity, command, format('%s relies on it.', reliant));
        END IF;
    END IF;
END $$;

-- A deferred trigger runs at COMMIT as the session's role, not as the role that caused it. Where it is enabled in the replica role, that
-- is the daemon's, whose rights its owner does not have.
CREATE FUNCTION psp.check_late_triggers(relation oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgdeferrable AND NOT t.tgisinternal
                  AND t.tgenabled IN ('A', 'R')) THEN
        PERFORM psp.refuse_ddl(object, command, 'A deferrable trigger that is ENABLE ALWAYS or REPLICA would run as the daemon''s role.',
                               'Let the trigger be enabled as usual, or make it one that is not deferrable.');
    END IF;
END $$;

-- psp's functions, by name, and whether the daemon's role may call them. Some belong to the owners of tables, who could move
-- them to another schema, or take the right to call them from the daemon or from psp's other functions. Filled when everything is installed (daemon_role.sql).
CREATE TABLE psp.own_functions (
    name       name PRIMARY KEY,
    for_daemon boolean NOT NULL
);

CREATE FUNCTION psp.check_functions(command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    in_views_mode CONSTANT boolean := (SELECT i.mode FROM psp.identity i) = 'views';
    missing name := (
        WITH functions AS MATERIALIZED (  -- those that this transaction has not written are as they were
            SELECT p.proname, p.oid, age(p.xmin) > age(pg_current_xact_id()::xid) AS is_older
              FROM pg_proc p WHERE p.pronamespace = 'psp'::regnamespace
        )
        SELECT min(o.name::text) FROM psp.own_functions o
         WHERE NOT EXISTS (SELECT FROM functions f
                            WHERE f.proname = o.name
                              AND (f.is_older
                                   OR (NOT o.for_daemon OR has_function_privilege('psp_semi_primary', f.oid, 'EXECUTE'))
                                      AND (in_views_mode OR o.name !~ '^(guard|look)_[0-9]+$'
                                           OR has_function_privilege('psp_functions', f.oid, 'EXECUTE')))));
BEGIN
    IF missing IS NOT NULL THEN
        PERFORM psp.refuse_ddl('psp.' || missing, command);
    END IF;
END $$;

-- A trigger of somebody's own that calls a function of psp would capture what its owner likes, and one that has a psp trigger's name would
-- stand in its place. (A partition gets psp's triggers by itself, which is no command; for this its creator may call the functions.)
CREATE FUNCTION psp.check_trigger(trigger oid, object text, command text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger t JOIN pg_proc f ON f.oid = t.tgfoid
                WHERE t.oid = trigger AND (psp.is_trigger_name(t.tgname) OR f.pronamespace = 'psp'::regnamespace)) THEN
        PERFORM psp.refuse_ddl(object, command, 'Only psp makes triggers that have its names or call its functions.',
                               'Use a name that does not begin with psp_, and a function of your own.');
    END IF;
END $$;

-- What a trigger does at other servers is told where it is enabled so.
CREATE FUNCTION psp.tell_loud_triggers(relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT quote_ident(t.name) FROM psp.loud_triggers t
         WHERE t.relation = tell_loud_triggers.relation AND current_setting('session_replication_role') <> 'replica'
           AND EXISTS (SELECT FROM psp.own_commands c
                        WHERE c.xid = pg_current_xact_id_if_assigned() AND c.statement ~* '\menable\s+(always|replica)\s+trigger\M')
    LOOP
        RAISE NOTICE USING MESSAGE = format('psp: trigger %s of %s fires for rows of other servers, too', name, relation::regclass),
                           HINT = 'There it may tell, and write local tables. Where it fails or writes a captured table, it is set aside.';
    END LOOP;
END $$;

-- Its tables are at each server by themselves, and so are their rows: those of pg_partman's configuration, for example.
CREATE FUNCTION psp.tell_local_tables(extension oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables CONSTANT text := (SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid)
                               FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p')
                              WHERE d.classid = 'pg_class'::regclass AND (d.refclassid, d.refobjid, d.deptype) = ('pg_extension'::regclass, extension, 'e'));
BEGIN
    IF tables IS NOT NULL AND current_setting('session_replication_role') <> 'replica' THEN
        RAISE NOTICE USING MESSAGE = format('psp: each semi-primary has rows of its own in tables of this extension: %s', tables),
                           HINT = 'Make the extension at each server, and use what it keeps there at one of them.';
    END IF;
END $$;

-- The table is at each server, and its rows are not: who decides by them decides for one server.
CREATE FUNCTION psp.tell_unlogged(relation oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT c.relpersistence FROM pg_class c WHERE c.oid = relation) = 'u' AND psp.is_schema_change()
       AND current_setting('session_replication_role') <> 'replica' THEN
        RAISE NOTICE USING MESSAGE = format('psp: each semi-primary has rows of its own in %s, which is unlogged', relation::regclass),
                           HINT = 'ALTER TABLE … SET LOGGED, if they mean something to all: a leader that was elected, a lock.';
    END IF;
END $$;

CREATE FUNCTION psp.on_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    c        record;
    is_local boolean := true;  -- nothing but temporary objects, rights and comments
BEGIN
    IF psp.is_own_command() THEN
        RETURN;
    END IF;
    FOR c IN SELECT * FROM pg_event_trigger_ddl_commands() LOOP
        IF c.classid = 'pg_trigger'::regclass THEN
            PERFORM psp.check_trigger(c.objid, c.object_identity, c.command_tag);
        ELSIF c.command_tag = 'ALTER TABLE' THEN
            PERFORM psp.check_late_triggers(c.objid, c.object_identity, c.command_tag), psp.tell_loud_triggers(c.objid);
        ELSIF c.command_tag = 'REFRESH MATERIALIZED VIEW' THEN
            DELETE FROM psp.unfilled_views u WHERE u.relation = c.objid;
        ELSIF c.command_tag = 'CREATE EXTENSION' THEN
            PERFORM psp.tell_local_tables(c.objid);
        END IF;
        IF c.command_tag ~ '^(CREATE TABLE|SELECT INTO)' THEN
            PERFORM psp.tell_unlogged(c.objid);
        END IF;
        IF c.command_tag ~ '^(CREATE (TABLE|MATERIALIZED VIEW)|SELECT INTO)' OR c.command_tag = 'ALTER TABLE' AND psp.is_schema_change() THEN
            PERFORM psp.note_known_relation(c.objid);
        END IF;
        IF c.schema_name = 'pg_temp' THEN
            IF c.classid = 'pg_class'::regclass THEN
                PERFORM psp.check_temporary(c.objid, c.object_identity, c.command_tag);
            END IF;
        ELSIF c.command_tag = 'COMMENT' THEN
            IF c.classid = 'pg_class'::regclass AND psp.is_schema_change() THEN
                PERFORM psp.check_local_index(c.objid, c.object_identity, c.command_tag);
            END IF;
        ELSIF c.command_tag NOT IN ('SECURITY LABEL', 'GRANT', 'REVOKE', 'ALTER DEFAULT PRIVILEGES') THEN
            is_local := false;
            PERFORM psp.check_command(c.classid, c.objid, c.object_identity, c.command_tag, c.schema_name,
                                      c.in_extension);
            IF c.command_tag LIKE 'CREATE %' AND NOT c.in_extension AND NOT psp.is_schema_change() THEN
                PERFORM psp.note_local_object(c.classid, c.objid);
            END IF;
        END IF;
    END LOOP;
    IF (NOT is_local OR tg_tag = 'DROP OWNED') AND NOT psp.is_schema_change() THEN
        PERFORM psp.check_all(tg_tag);
    END IF;
    IF tg_tag IN ('REVOKE', 'DROP OWNED', 'ALTER SCHEMA') THEN
        PERFORM psp.check_owners(tg_tag);
    END IF;
    IF tg_tag IN ('REVOKE', 'DROP OWNED', 'ALTER FUNCTION', 'ALTER PROCEDURE', 'ALTER ROUTINE') THEN
        PERFORM psp.check_functions(tg_tag);
    END IF;
END $$;

-- Whether something that was dropped is psp's own.
CREATE FUNCTION psp.is_of_psp(object_type text, schema name, object name, address text[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN schema = 'psp' THEN true
        WHEN object_type = 'schema' THEN object = 'psp'
        WHEN object_type = 'extension' THEN psp.is_needed_extension(address[1])
        ELSE false END
$$;

-- Whether psp makes it again for a table that has changed: it had the type of a column that has gone with this type.
CREATE FUNCTION psp.is_made_again(schema name, address text[], original boolean) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT psp.is_schema_change() AND NOT original AND schema = 'psp' AND address[2] ~ '^(apply_values|apply_keys|apply_delete|guard)_[0-9]+$'
$$;

-- The type of which it was a part: a domain's constraint, or a column of what has a row type. Null: of none.
CREATE FUNCTION psp.type_of_dropped(object_type text, address text[]) RETURNS oid
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN object_type = 'domain constraint' THEN to_regtype(address[1])
                WHEN object_type LIKE '% column' THEN to_regtype(format('%I.%I', address[1], address[2])) END
$$;

-- Whether it was a captured relation, or a part of one, or of a type that one relies on. By names: it is gone.
CREATE FUNCTION psp.is_guarded(object_type text, schema name, object name, address text[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN object_type = 'index' THEN EXISTS (
            SELECT FROM psp.guarded_objects g
             WHERE g.kind = 'unique index' AND g.name = object AND g.schema_name = schema)
        WHEN object_type IN ('table', 'view', 'sequence') THEN EXISTS (
            SELECT FROM psp.guarded_relations g
             WHERE g.schema_name = schema AND g.relation_name = object)
        WHEN object_type IN ('table column', 'view column', 'table constraint', 'default value', 'trigger', 'rule')
            THEN EXISTS (
            SELECT FROM psp.guarded_relations g
             WHERE g.kind = 'relation' AND g.schema_name = address[1]::name AND g.relation_name = address[2]::name)
        ELSE false END
        OR psp.relied_on_by('pg_type'::regclass, psp.type_of_dropped(object_type, address)) IS NOT NULL
$$;

-- Whether it was a partition of a captured table that is still there, and may have had rows of which nothing tells: they would stay at the primary.
CREATE FUNCTION psp.was_filled_partition(object oid, schema name, object_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN current_setting('session_replication_role') <> 'replica'  -- where it runs first
           AND EXISTS (SELECT FROM psp.guarded_relations g
                         JOIN psp.captured_relations r USING (table_id) JOIN pg_class c ON c.oid = r.relation AND NOT c.relispartition
                        WHERE (g.schema_name, g.relation_name, g.kind) = (schema, object_name, 'relation') AND r.relation <> object)
           AND NOT EXISTS (SELECT FROM psp.touched_relations t
                            WHERE (t.xid, t.relation) = (pg_current_xact_id_if_assigned(), object) AND t.how IN ('empty', 'to drop'));
END $$;

CREATE FUNCTION psp.on_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
    d record;
BEGIN
    IF psp.is_own_command() THEN
        RETURN;
    END IF;
    FOR d IN SELECT * FROM pg_event_trigger_dropped_objects() LOOP
        CONTINUE WHEN d.is_temporary OR psp.is_made_again(d.schema_name::name, d.address_names, d.original);
        IF d.object_type IN ('table', 'materialized view') THEN
            DELETE FROM psp.known_relations k WHERE k.relation = d.objid;
        END IF;
        DELETE FROM psp.local_objects l WHERE (l.class, l.object) = (d.classid, d.objid) AND d.objsubid = 0;
        IF psp.is_of_psp(d.object_type, d.schema_name::name, d.object_name::name, d.address_names)
           OR (CASE WHEN psp.is_schema_change()
                   THEN d.object_type = 'trigger' AND d.original AND psp.is_trigger_name(d.address_names[3]::name)  -- and not with its table
                   ELSE psp.is_guarded(d.object_type, d.schema_name::name, d.object_name::name, d.address_names) END) THEN
            PERFORM psp.refuse_ddl(d.object_identity, tg_tag);
        ELSIF d.object_type = 'index' AND d.original AND psp.is_schema_change() THEN
            IF NOT psp.may_drop_local_index(d.objid, d.schema_name::name, d.object_name::name, tg_tag) THEN
                PERFORM psp.check_local_index(d.objid, d.object_identity, tg_tag);
            END IF;
        ELSIF psp.is_schema_change() THEN
            IF d.object_type = 'table' AND psp.was_filled_partition(d.objid, d.schema_name::name, d.object_name::name) THEN
                PERFORM psp.refuse_ddl(d.object_identity, tg_tag, 'It is a partition with rows, which the statement does not drop by its name.',
                                       'DROP TABLE with the partition''s name, by a statement of its own, or TRUNCATE it before.');
            END IF;
            PERFORM psp.touch_reliant('pg_type'::regclass, psp.type_of_dropped(d.object_type, d.address_names), tg_tag);
        END IF;
    END LOOP;
END $$;

-- ALTER TABLE … TYPE … USING may leave the catalog as it was, and change every row. (4: it computes values of columns that were there.)
CREATE FUNCTION psp.on_rewrite() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    IF psp.is_schema_change() THEN
        IF pg_event_trigger_table_rewrite_reason() & 4 <> 0 THEN
            INSERT INTO psp.touched_relations VALUES (pg_current_xact_id(), pg_event_trigger_table_rewrite_oid(), 'rewritten');
        END IF;
    ELSIF psp.is_captured(pg_event_trigger_table_rewrite_oid()) THEN
        PERFORM psp.refuse_ddl(pg_event_trigger_table_rewrite_oid()::regclass::text, tg_tag);
    END IF;
END $$;
