-- What the fuzzer of statements writes to: every kind of table, key, index, trigger and reference, with few keys, so
-- that statements meet. Nothing here depends on the order of rows on disk, on time or on sequences: the same
-- statements have the same effect on a plain PostgreSQL.

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (x integer, y text);
CREATE DOMAIN small AS integer CHECK (VALUE BETWEEN -1000 AND 1000);

-- ---- statements inside statements ------------------------------------------------------------------

-- Texts that copy themselves must come to an end: so many are executed in one transaction.
CREATE FUNCTION may_run() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    used integer := coalesce(nullif(current_setting('fuzz.used', true), ''), '0');
BEGIN
    PERFORM set_config('fuzz.used', (used + 1)::text, true);
    RETURN used < 40 AND coalesce(current_setting('fuzz.quiet', true), '') <> 'on';
END $$;

-- A statement as an expression: how many rows it touched.
CREATE FUNCTION run(statement text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    touched integer := 0;
BEGIN
    IF statement IS NOT NULL AND may_run() THEN
        EXECUTE statement;
        GET DIAGNOSTICS touched = ROW_COUNT;
    END IF;
    RETURN touched;
END $$;

-- The same in a subtransaction, which an error rolls back.
CREATE FUNCTION try(statement text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN run(statement);
EXCEPTION WHEN OTHERS THEN
    RETURN -1;
END $$;

-- Each statement in a transaction of its own.
CREATE PROCEDURE run_and_commit(statements text[]) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
        COMMIT;
    END LOOP;
END $$;

-- ---- tables without anything of their own, of which capture is cheapest ------------------------------

CREATE TABLE plain (id integer PRIMARY KEY, a integer, b text, twice integer GENERATED ALWAYS AS (a * 2) STORED);

CREATE TABLE uniq (id integer PRIMARY KEY, a integer UNIQUE, b text, c integer DEFAULT 1);
CREATE UNIQUE INDEX uniq_lower_b ON uniq (lower(b)) WHERE c > 0;

CREATE TABLE late (
    id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED,
    a  integer UNIQUE DEFERRABLE INITIALLY IMMEDIATE,
    b  text
);

CREATE TABLE keys (
    n numeric, t text, f double precision, c char(5), m mood, d small,
    a integer, b text,
    PRIMARY KEY (n, t, f, c, m, d)
);

CREATE TABLE types (
    id integer PRIMARY KEY, a integer, b text,
    n numeric, f double precision, i integer[], j json, jb jsonb, m mood, at timestamptz, p pair, pp pair[],
    ff double precision[], tt timestamptz[], hh bytea[], d small, r int4range, h bytea, u uuid, v interval, long text
);

-- ---- partitions, to which rows move ---------------------------------------------------------------

CREATE TABLE listed (kind text, id integer, a integer, b text, PRIMARY KEY (kind, id)) PARTITION BY LIST (kind);
CREATE TABLE listed_a PARTITION OF listed FOR VALUES IN ('a');
CREATE TABLE listed_b PARTITION OF listed FOR VALUES IN ('b');
CREATE TABLE listed_rest PARTITION OF listed DEFAULT PARTITION BY RANGE (id);
CREATE TABLE listed_low PARTITION OF listed_rest FOR VALUES FROM (MINVALUE) TO (4);
CREATE TABLE listed_high PARTITION OF listed_rest DEFAULT;

CREATE TABLE ranged (id integer PRIMARY KEY, a integer, b text, todo text) PARTITION BY RANGE (id);
CREATE TABLE ranged_low PARTITION OF ranged FOR VALUES FROM (MINVALUE) TO (4);
CREATE TABLE ranged_mid PARTITION OF ranged FOR VALUES FROM (4) TO (7);
CREATE TABLE ranged_rest PARTITION OF ranged DEFAULT;

-- ---- references -----------------------------------------------------------------------------------

CREATE TABLE parent (id integer PRIMARY KEY, a integer, b text);
CREATE TABLE child (
    id integer PRIMARY KEY, a integer REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, b text
);
CREATE TABLE cousin (
    id integer PRIMARY KEY, a integer REFERENCES parent ON DELETE SET NULL ON UPDATE SET DEFAULT, b text
);
CREATE TABLE heir (
    id integer, a integer REFERENCES parent ON DELETE SET DEFAULT ON UPDATE NO ACTION
        DEFERRABLE INITIALLY DEFERRED,
    b text, PRIMARY KEY (id)
);
CREATE TABLE tree (
    id integer PRIMARY KEY, a integer REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE
        DEFERRABLE INITIALLY DEFERRED,
    b text
);
-- The key itself is what the reference changes.
CREATE TABLE twin (
    id integer PRIMARY KEY REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, a integer, b text
);

-- ---- triggers: their statements stand in the rows ----------------------------------------------------

CREATE TABLE audit (place text, what text, part integer, n integer NOT NULL, PRIMARY KEY (place, what, part));

CREATE TABLE trig (
    id integer PRIMARY KEY, a integer, b text,
    early text,  -- executed before the row is written,
    todo  text,  -- after the statement,
    later text   -- at COMMIT
);

CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_run() THEN
        INSERT INTO audit VALUES (TG_TABLE_NAME, TG_WHEN || ' ' || TG_OP, pg_trigger_depth(), 1)
        ON CONFLICT (place, what, part) DO UPDATE SET n = audit.n + 1;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION note_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_run() THEN
        INSERT INTO audit SELECT TG_TABLE_NAME, 'rows', id % 4, count(*) FROM fresh GROUP BY id % 4
        ON CONFLICT (place, what, part) DO UPDATE SET n = audit.n + excluded.n;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION do_early() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.early IS DISTINCT FROM OLD.early THEN
        PERFORM run(NEW.early);
    END IF;
    IF NEW.a = 7 THEN
        RETURN NULL;
    ELSIF NEW.a = 6 THEN
        NEW.id := NEW.id + 100;  -- a key that no SET names
    END IF;
    NEW.b := left(NEW.b || '^', 40);
    RETURN NEW;
END $$;

CREATE FUNCTION do_todo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.a = 5 THEN
            PERFORM run(OLD.todo);
        END IF;
    ELSIF TG_OP = 'INSERT' OR NEW.todo IS DISTINCT FROM OLD.todo THEN
        PERFORM run(NEW.todo);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION do_later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.later IS DISTINCT FROM OLD.later THEN
        PERFORM run(NEW.later);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER a_note BEFORE INSERT OR UPDATE OR DELETE ON trig FOR EACH STATEMENT EXECUTE FUNCTION note_statement();
CREATE TRIGGER z_note AFTER INSERT ON trig REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION note_rows();
CREATE TRIGGER early BEFORE INSERT OR UPDATE ON trig FOR EACH ROW EXECUTE FUNCTION do_early();
CREATE TRIGGER todo AFTER INSERT OR UPDATE OR DELETE ON trig FOR EACH ROW EXECUTE FUNCTION do_todo();
CREATE CONSTRAINT TRIGGER later AFTER INSERT OR UPDATE ON trig DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION do_later();
CREATE TRIGGER z_note AFTER UPDATE ON ranged REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION note_rows();
CREATE TRIGGER todo AFTER INSERT OR UPDATE OR DELETE ON ranged FOR EACH ROW EXECUTE FUNCTION do_todo();

-- A chain of deferred triggers: each link writes the next one, until n is used up; 3 breaks it, at COMMIT.
CREATE TABLE chain (id integer PRIMARY KEY, a integer, b text);
CREATE FUNCTION next_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.b = 'bad' THEN
        RAISE EXCEPTION 'a bad link' USING ERRCODE = 'check_violation';
    ELSIF NEW.a > 0 AND may_run() THEN
        INSERT INTO chain VALUES (NEW.id + 10, NEW.a - 1, CASE WHEN NEW.b = 'ends badly' AND NEW.a = 1 THEN 'bad' ELSE NEW.b END)
        ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER next_link AFTER INSERT OR UPDATE ON chain DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION next_link();

-- ---- views and rules --------------------------------------------------------------------------------

CREATE VIEW plain_view AS SELECT id, a, b FROM plain WHERE a IS DISTINCT FROM 9 WITH CHECK OPTION;
CREATE VIEW both_view AS SELECT p.id, p.a, u.b FROM plain p JOIN uniq u USING (id);
CREATE FUNCTION write_both() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM plain WHERE id = OLD.id;
        DELETE FROM uniq WHERE id = OLD.id;
        RETURN OLD;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO plain VALUES (NEW.id, NEW.a) ON CONFLICT (id) DO UPDATE SET a = excluded.a;
        INSERT INTO uniq VALUES (NEW.id, NULL, NEW.b, 0) ON CONFLICT (id) DO UPDATE SET b = excluded.b;
    ELSE
        UPDATE plain SET id = NEW.id, a = NEW.a WHERE id = OLD.id;
        UPDATE uniq SET id = NEW.id, b = NEW.b WHERE id = OLD.id;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER write_both INSTEAD OF INSERT OR UPDATE OR DELETE ON both_view
    FOR EACH ROW EXECUTE FUNCTION write_both();

CREATE TABLE ruled (id integer PRIMARY KEY, a integer, b text);
CREATE RULE also_insert AS ON INSERT TO ruled DO ALSO UPDATE plain SET b = 'by rule' WHERE id = NEW.id;
CREATE RULE also_update AS ON UPDATE TO ruled WHERE NEW.a > 3 DO ALSO
    INSERT INTO uniq VALUES (NEW.id + 20, NULL, NULL, 0) ON CONFLICT DO NOTHING;
CREATE RULE also_delete AS ON DELETE TO ruled DO ALSO DELETE FROM plain WHERE id = OLD.id;

-- ---- of concurrent phases: what became of each transaction ------------------------------------------

CREATE TABLE journal (attempt uuid PRIMARY KEY, sp text NOT NULL);
