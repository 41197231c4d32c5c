-- Reads that COMMIT certifies: a transaction names the rows, or the tables, that it relies on without writing them, and loses if another
-- one has changed them. docs/isolation.md, docs/decisions/37.

-- Where the functions below hand over what was read. Nobody may give `role`, so its default is true: the role that has called them.
CREATE VIEW psp.new_read AS
SELECT NULL::name AS role, NULL::text AS what, NULL::regclass AS relation, NULL::text[] AS key WHERE false;
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

-- The key's bytes, as psp.key_of makes them of a row.
CREATE FUNCTION psp.key_of_values(relation regclass, key_columns jsonb, key text[]) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET client_encoding = 'UTF8' AS $$
DECLARE
    bytes bytea;
BEGIN
    IF coalesce(cardinality(key), 0) <> jsonb_array_length(key_columns) THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('psp: the key of table %s has %s columns, not %s', relation, jsonb_array_length(key_columns),
                             coalesce(cardinality(key), 0)),
            HINT = format('Give values for (%s).', psp.name_list(key_columns, ''));
    ELSIF num_nulls(VARIADIC key) > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed',
            MESSAGE = format('psp: no row of table %s has a null in its key', relation);
    END IF;
    EXECUTE (SELECT format('SELECT record_send(ROW(%s))',
                           string_agg(psp.key_value(relation, k.value, key[k.ordinality]), ', ' ORDER BY k.ordinality))
               FROM jsonb_array_elements(key_columns) WITH ORDINALITY k)
       INTO bytes;
    RETURN bytes;
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

-- The texts of other values, and what reads them again, depend on settings.
CREATE FUNCTION psp.certify_read(relation regclass, VARIADIC key anyarray) RETURNS void
LANGUAGE plpgsql SET datestyle = 'ISO, MDY' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET lc_monetary = 'C' SET timezone = 'UTC' AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read');
    INSERT INTO psp.new_read (what, relation, key)
    VALUES ('row', certify_read.relation,
            ARRAY(SELECT CASE WHEN pg_catalog.num_nulls(certify_read.key[n]) OPERATOR(pg_catalog.=) 0
                              THEN pg_catalog.concat(certify_read.key[n]) END
                    FROM pg_catalog.generate_subscripts(certify_read.key, 1) n ORDER BY n));
END $$;

-- The transaction relies on all rows of the table, and on there being no others.
CREATE FUNCTION psp.certify_read_table(relation regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM psp.refuse_read_only('psp.certify_read_table');
    INSERT INTO psp.new_read (what, relation) VALUES ('table', certify_read_table.relation);
END $$;
