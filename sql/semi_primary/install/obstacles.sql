-- What may stand in the way of rows that arrive here, although they are right everywhere else, and can go: the apply worker asks when
-- such rows have been refused, and tries again (semi_primary/apply/apply_core.h).
--
-- - A unique index that is not valid: one that is being made CONCURRENTLY, or that was not made to its end. It holds nowhere else yet.
-- - A CHECK that is NOT VALID, while this server joins: older rows need not fulfil it. pg_dump adds such a one after the rows, too.

-- CHECKs that come back when the copy is complete. Their text runs as a superuser.
CREATE TABLE psp.checks_set_aside (
    place      text NOT NULL,  -- TABLE or DOMAIN, and its name
    name       name NOT NULL,
    definition text NOT NULL,
    comment    text,
    table_id   integer,  -- of a captured table
    PRIMARY KEY (place, name)
);

-- Roles with pg_write_all_data may write any table.
CREATE FUNCTION psp.check_writer_of_checks() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_user::regrole <> (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = 'psp: only psp sets checks aside';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_check_writer_of_checks BEFORE INSERT OR UPDATE OR DELETE ON psp.checks_set_aside
    FOR EACH STATEMENT EXECUTE FUNCTION psp.check_writer_of_checks();
ALTER TABLE psp.checks_set_aside ENABLE ALWAYS TRIGGER psp_check_writer_of_checks;

-- The guard compares with the constraints as they are now.
CREATE FUNCTION psp.note_constraints(table_id integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM psp.guarded_objects o USING psp.guarded_relations g
     WHERE g.table_id = note_constraints.table_id AND (o.schema_name, o.relation_name, o.kind) = (g.schema_name, g.relation_name, 'constraint');
    INSERT INTO psp.guarded_objects
    SELECT s.* FROM psp.guarded_state(ARRAY(
        SELECT r.relation FROM psp.captured_relations r WHERE r.table_id = note_constraints.table_id)) s WHERE s.kind = 'constraint';
END $$;

-- The session that makes the index gets 57014. Who reads the table for long is not waited for: everybody else would wait behind that lock. (55P03:
-- it is tried again.)
CREATE FUNCTION psp.drop_unfinished_index(message text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET lock_timeout = '1s' AS $$
DECLARE
    i record;
BEGIN
    FOR i IN SELECT x.indexrelid AS oid, x.indexrelid::regclass::text AS name FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
              WHERE NOT x.indisvalid AND x.indisunique AND psp.is_captured(x.indrelid) AND position(c.relname IN message) > 0
    LOOP
        PERFORM pg_cancel_backend(p.pid) FROM pg_stat_progress_create_index p WHERE p.index_relid = i.oid;
        PERFORM psp.begin_own_commands();
        EXECUTE format('DROP INDEX %s', i.name);
        PERFORM psp.end_own_commands();
        RETURN format('unique index %s, which was not made to its end, has been dropped', i.name);
    END LOOP;
    RETURN NULL;
END $$;

-- Those of the message's name; of a table that has them for its partitions, there.
CREATE FUNCTION psp.set_checks_aside(message text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    k    record;
    told text;
BEGIN
    FOR k IN SELECT CASE c.conrelid WHEN 0 THEN 'DOMAIN ' || c.contypid::regtype ELSE 'TABLE ' || c.conrelid::regclass END AS place, c.conname AS name,
                    pg_get_constraintdef(c.oid) AS definition, obj_description(c.oid, 'pg_constraint') AS comment, r.table_id
               FROM pg_constraint c LEFT JOIN psp.captured_relations r ON r.relation = c.conrelid
              WHERE c.contype = 'c' AND NOT c.convalidated AND c.coninhcount = 0 AND position(c.conname IN message) > 0
                AND (c.conrelid = 0 OR r.table_id IS NOT NULL)
    LOOP
        INSERT INTO psp.checks_set_aside VALUES (k.place, k.name, k.definition, k.comment, k.table_id);
        PERFORM psp.begin_own_commands();
        EXECUTE format('ALTER %s DROP CONSTRAINT %I', k.place, k.name);
        PERFORM psp.end_own_commands();
        PERFORM psp.note_constraints(k.table_id);
        told := concat_ws(', ', told, format('%s of %s', k.name, k.place));
    END LOOP;
    RETURN 'until this server has joined, it does without what is NOT VALID: ' || told;
END $$;

-- Rows have been refused with this error. What has been done about it; null: nothing can be.
CREATE FUNCTION psp.remove_obstacle(sqlstate text, message text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN sqlstate = '23505' THEN psp.drop_unfinished_index(message)
                WHEN sqlstate = '23514' AND (SELECT i.joining FROM psp.identity i) THEN psp.set_checks_aside(message) END;
END $$;

-- The copy is complete, or begins again: its statements find the catalog that they need.
CREATE FUNCTION psp.take_checks_back() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    k psp.checks_set_aside;
BEGIN
    FOR k IN SELECT * FROM psp.checks_set_aside LOOP
        PERFORM psp.begin_own_commands();
        EXECUTE format('ALTER %s ADD CONSTRAINT %I %s', k.place, k.name, k.definition);
        IF k.comment IS NOT NULL THEN
            EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', k.name, regexp_replace(k.place, '^TABLE ', ''), k.comment);
        END IF;
        PERFORM psp.end_own_commands();
        PERFORM psp.note_constraints(k.table_id);
    END LOOP;
    DELETE FROM psp.checks_set_aside;
END $$;
