"""`psp schema dump` gives back the database that was adopted: nothing of psp's, sequences as they were."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psycopg
import pytest
from psp.output import PspError
from psp.paths import client_program
from psp.schema.plain_dump import dump_plain

from tests.sql.apply.test_advance_sequences import put
from tests.sql.databases import APPLICATION, Pair, one

SCHEMA = f"""
GRANT ALL ON SCHEMA public TO {APPLICATION};
CREATE SCHEMA "Other things" AUTHORIZATION {APPLICATION};
SET ROLE {APPLICATION};
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v = NEW.v || '!'; RETURN NEW; END $$;
CREATE TABLE parent (id serial PRIMARY KEY, name text UNIQUE DEFERRABLE, mood mood, p positive);
CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT 5) PRIMARY KEY,
                    parent int REFERENCES parent ON DELETE CASCADE, v text,
                    up text GENERATED ALWAYS AS (upper(v)) STORED);
CREATE UNIQUE INDEX child_v ON child (lower(v)) WHERE v <> '';
CREATE TRIGGER psychic BEFORE INSERT ON child FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TABLE "Other things"."Odd one" (id bigserial PRIMARY KEY, down int);
CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE untouched;
ALTER TABLE "Other things"."Odd one" ALTER down SET DEFAULT nextval('down');
CREATE TABLE event (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE VIEW glad AS SELECT * FROM parent WHERE mood = 'glad';
CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM parent;
COMMENT ON TABLE child IS 'Of parents -- Name: x; Type: TRIGGER';
GRANT SELECT ON parent TO PUBLIC;
ALTER TABLE child ENABLE ROW LEVEL SECURITY; CREATE POLICY all_of_it ON child USING (true);
INSERT INTO parent (name, mood, p) VALUES ('a', 'sad', 1), ('b', 'glad', 2);
INSERT INTO child (parent, v) VALUES (1, 'x'), (2, E'tab\\t\\\\.\\n');
INSERT INTO "Other things"."Odd one" DEFAULT VALUES;
INSERT INTO event VALUES (1, '2026-01-02');
RESET ROLE;
"""


def pg_dump(dsn: str) -> str:
    """What pg_dump says, without what is another at each call."""
    command = [str(client_program("pg_dump", 15)), "-d", dsn]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^\\(un)?restrict .*$|^-- Dumped .*$", "", text, flags=re.MULTILINE)
    return re.sub(r"pg_attver=\d+(, )?", "", text)


def load(file: Path, dsn: str) -> None:
    """By psql, which ends at the first error."""
    psql = str(client_program("psql", 15))
    command = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "" and done.returncode == 0, done.stderr


def plain(pair: Pair, file: Path) -> Pair:
    """The dump of an adopted database, loaded into one of its own."""
    with file.open("wb") as out:
        dump_plain(pair.dsn, out)
    copy = Pair(f"{pair.name}_plain", pair.server)
    pair.server.create_database(copy.name)
    copy.run(f"GRANT ALL ON SCHEMA public TO {APPLICATION}")
    load(file, copy.dsn)
    return copy


def test_the_plain_database_is_the_one_that_was_adopted(pair: Pair, tmp_path: Path) -> None:
    pair.run(SCHEMA)
    before = pg_dump(pair.dsn)
    pair.adopt()
    assert pg_dump(plain(pair, tmp_path / "dump.sql").dsn) == before


def test_sequences_go_on_behind_the_numbers_of_others(pair: Pair, tmp_path: Path) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    put(pair, "INSERT INTO parent VALUES (1000, 'of another')")
    with pair.connect() as connection:
        drawn = one(connection, "SELECT nextval('untouched')")
    with psycopg.connect(plain(pair, tmp_path / "dump.sql").dsn) as connection:
        assert one(connection, "SELECT nextval('untouched')") == drawn + 1
        connection.execute("INSERT INTO parent (name) VALUES ('c')")
        assert one(connection, "SELECT max(id) FROM parent") == 1001


def test_a_plain_database_is_for_pg_dump(pair: Pair, tmp_path: Path) -> None:
    with (tmp_path / "dump.sql").open("wb") as out, pytest.raises(PspError, match="not under psp"):
        dump_plain(pair.dsn, out)
