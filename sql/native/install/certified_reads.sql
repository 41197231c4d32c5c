-- Reads that COMMIT certifies: a transaction names the rows, or the tables, that it relies on without writing them, and loses if another
-- one has changed them. docs/isolation.md, docs/decisions/37.

-- Where the functions below hand over what was read. Nobody may give `role`, so its default is true: the role that has called them.
CREATE VIEW psp.new_read AS
SELECT NULL::name AS role, NULL::text AS what, NULL::regclass AS relation, NULL::name AS foreign_key, NULL::text[] AS key WHERE false;
ALTER VIEW psp.new_read ALTER COLUMN role SET DEFAULT current_user;

-- SQL for one value of a key, as it is in the key's bytes. PostgreSQL's own input functions read the text: a cast might be a user's, and
-- only types of PostgreSQL's and enums can be in a key. An enum's value is its label.
CREATE FUNCTION psp.key_value(relation regclass, key_column jsonb, value text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type CONSTANT text := key_column ->> 'type';
    enum CONSTANT oid := (SELECT t.oid FROM pg_attribute a JOIN psp.plain_types p ON p.type = a.atttypid
                            JOIN pg_type t ON t.oid = p.plain AND t.typtype = 'e'
                           WHERE a.attrelid = relation AND a.attname = key_column ->> 'name' AND NOT a.attisdropped);
BEGIN
    IF enum IS NULL THEN
        RETURN psp.normalised(key_column ->> 'normalise', format('%L::%s', value, type), type);
    ELSIF NOT EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = enum AND e.enumlabel::text = value) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_text_representation',
            MESSAGE = format('psp: invalid value for enum %s: "%s"', type, value);
    END IF;
    RETURN format('%L::text', value);
END $$;

-- Raises what is wrong with the values of a key; names: of its columns.
CREATE FUNCTION psp.check_key_values(key text[], columns integer, of_what text, names text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(cardinality(key), 0) <> columns THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('psp: %s has %s columns, not %s', of_what, columns, coalesce(cardinality(key), 0)),
            HINT = format('Give values for (%s).', names);
    ELSIF num_nulls(VARIADIC key) > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = format('psp: no value of %s can be null', of_what);
    END IF;
END $$;

-- The key's bytes, as psp.key_of makes them of a row.
CREATE FUNCTION psp.key_of_values(relation regclass, key_columns jsonb, key text[]) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET client_encoding = 'UTF8' AS $$
DECLARE
    bytes bytea;
BEGIN
    PERFORM psp.check_key_values(key, jsonb_array_length(key_columns), format('the key of table %s', relation),
                                 psp.name_list(key_columns, ''));
    EXECUTE (SELECT format('SELECT record_send(ROW(%s))',
                           string_agg(psp.key_value(relation, k.value, key[k.ordinality]), ', ' ORDER BY k.ordinality))
               FROM jsonb_array_elements(key_columns) WITH ORDINALITY k)
       INTO bytes;
    RETURN bytes;
END $$;

-- All rows that refer to a key by a foreign key of `target`: the key, so that no other row comes, and the rows that the transaction sees.
-- They are read as the table's owner, who sees all rows and may use the key's types.
CREATE FUNCTION psp.capture_referrers(x xid8, target regclass, foreign_key name, key text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    child   record;  -- the table, and what psp.tables says of the foreign key
    made_of record;  -- its columns, in its own order
BEGIN
    SELECT t.table_id, t.key_columns, k.value AS fact, format('%I.%I', t.schema_name, t.table_name)::regclass AS relation INTO child
      FROM psp.captured_relations r JOIN psp.tables t USING (table_id) CROSS JOIN LATERAL jsonb_array_elements(t.foreign_keys) k
     WHERE r.relation = target AND k.value ->> 'constraint' = foreign_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'undefined_object',
            MESSAGE = format('psp: table %s has no foreign key %I to a table that is captured', target, foreign_key);
    END IF;
    SELECT count(*)::integer AS columns, psp.name_list(jsonb_agg(a.attname ORDER BY n.place), '') AS names,
           string_agg(format('%L::%s AS %I', key[n.place], format_type(p.plain, p.modifier), a.attname), ', ') AS row,
           string_agg(format('r.%1$I%2$s OPERATOR(%3$I.%4$s) %5$L::%6$s', a.attname,
                             CASE WHEN p.plain <> a.atttypid THEN '::' || format_type(p.plain, -1) ELSE '' END, o.nspname, o.oprname,
                             key[n.place], format_type(p.plain, p.modifier)), ' AND ') AS matches
      INTO made_of
      FROM pg_constraint c CROSS JOIN LATERAL unnest(c.conkey, c.conffeqop) WITH ORDINALITY n(number, operator, place)
      JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = n.number
     CROSS JOIN LATERAL (
        SELECT d.plain, CASE WHEN d.plain = a.atttypid THEN a.atttypmod ELSE d.modifier END AS modifier
          FROM psp.plain_types d WHERE d.type = a.atttypid) p
      JOIN (SELECT q.oid, q.oprname, s.nspname FROM pg_operator q JOIN pg_namespace s ON s.oid = q.oprnamespace) o ON o.oid = n.operator
     -- It may be a partition's alone.
     WHERE c.oid = (SELECT k.oid FROM pg_constraint k
                     WHERE k.conname = foreign_key AND k.contype = 'f' AND k.conparentid = 0
                       AND k.conrelid IN (SELECT child.relation UNION ALL SELECT t.relid FROM pg_partition_tree(child.relation) t));
    PERFORM psp.check_key_values(key, made_of.columns, format('foreign key %I of table %s', foreign_key, target), made_of.names);
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    SELECT x, (child.fact ->> 'refers_to')::integer, 'f', record_send(ROW(k.key))
      FROM psp.read_as_owner(child.relation, format('SELECT %s FROM (SELECT %s) r WHERE %s', child.fact ->> 'key', made_of.row,
                                                    child.fact ->> 'complete')) k(key);
    INSERT INTO psp.write_set (xid, table_id, op, payload)
    SELECT x, child.table_id, 'r', record_send(ROW(k.key))
      FROM psp.read_as_owner(child.relation, format('SELECT %s FROM %s r WHERE %s',
                                                    psp.key_of(jsonb_build_object('key_columns', child.key_columns), 'r'),
                                                    child.relation, made_of.matches)) k(key);
END $$;

-- In the replica role nothing is captured, as for rows.
CREATE FUNCTION psp.write_read() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target psp.tables;
    x      xid8;
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        RETURN NULL;
    ELSIF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_transaction_state',
            MESSAGE = 'psp: reads of READ COMMITTED transactions are not certified',
            DETAIL = 'Each of its statements sees another state, so nothing tells what it has relied on.',
            HINT = 'BEGIN ISOLATION LEVEL REPEATABLE READ.';
    ELSIF NOT has_table_privilege(NEW.role, NEW.relation, 'SELECT') THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('permission denied for table %s', NEW.relation);
    END IF;
    SELECT t.* INTO target FROM psp.captured_relations r JOIN psp.tables t USING (table_id)
     WHERE r.relation = NEW.relation AND t.table_id <> @SCHEMA_HISTORY_ID@;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('psp: table %s is not captured', NEW.relation),
            DETAIL = 'Its rows are of this semi-primary only, or no rows.';
    END IF;
    x := psp.begin_certified();
    IF NEW.what = 'table' THEN
        INSERT INTO psp.write_set (xid, table_id, op, payload) VALUES (x, target.table_id, 't', '');
    ELSIF NEW.what = 'referrers' THEN
        PERFORM psp.capture_referrers(x, NEW.relation, NEW.foreign_key, NEW.key);
    ELSE
        INSERT INTO psp.write_set (xid, table_id, op, payload)
        VALUES (x, target.table_id, 'r', record_send(ROW(psp.key_of_values(NEW.relation, target.key_columns, NEW.key))));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_write_read INSTEAD OF INSERT ON psp.new_read FOR EACH ROW EXECUTE FUNCTION psp.write_read();

-- ---- what applications call. They run as the caller, under its search_path ----------------------------------------------------

-- The transaction relies on the row of this key, or on there being none. Values as text are read as the session's settings say.
CREATE FUNCTION psp.certify_read(relation regclass, VARIADIC key text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read');
    INSERT INTO psp.new_read (what, relation, key) VALUES ('row', certify_read.relation, certify_read.key);
END $$;

-- Values as texts, by their types' output functions.
CREATE FUNCTION psp.texts_of(vals anyarray) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT CASE WHEN pg_catalog.num_nulls(vals[n]) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.concat(vals[n]) END
                   FROM pg_catalog.generate_subscripts(vals, 1) n ORDER BY n)
$$;

-- These texts, and what reads them again, depend on settings.
CREATE FUNCTION psp.certify_read(relation regclass, VARIADIC key anyarray) RETURNS void
LANGUAGE plpgsql SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET lc_monetary = 'C' SET timezone = 'UTC' AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read');
    INSERT INTO psp.new_read (what, relation, key) VALUES ('row', certify_read.relation, psp.texts_of(certify_read.key));
END $$;

-- The transaction relies on all rows of the table, and on there being no others.
CREATE FUNCTION psp.certify_read_table(relation regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read_table');
    INSERT INTO psp.new_read (what, relation) VALUES ('table', certify_read_table.relation);
END $$;

-- The transaction relies on all rows that refer to a key by this foreign key of `child`, and on there being no others. The key's values are in
-- the order of the constraint's columns.
CREATE FUNCTION psp.certify_read_referrers(child regclass, foreign_key name, VARIADIC key text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read_referrers');
    INSERT INTO psp.new_read (what, relation, foreign_key, key)
    VALUES ('referrers', certify_read_referrers.child, certify_read_referrers.foreign_key, certify_read_referrers.key);
END $$;

CREATE FUNCTION psp.certify_read_referrers(child regclass, foreign_key name, VARIADIC key anyarray) RETURNS void
LANGUAGE plpgsql SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET lc_monetary = 'C' SET timezone = 'UTC' AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read_referrers');
    INSERT INTO psp.new_read (what, relation, foreign_key, key)
    VALUES ('referrers', certify_read_referrers.child, certify_read_referrers.foreign_key, psp.texts_of(certify_read_referrers.key));
END $$;
