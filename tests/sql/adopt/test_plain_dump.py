"""`psp schema dump` gives back the database that was adopted: nothing of psp's, sequences as they were."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psp.output import PspError
from psp.paths import client_program
from psp.schema import load as loading
from psp.schema import plain_dump
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
CREATE FUNCTION like_a_dump() RETURNS text LANGUAGE plpgsql AS $imitation$
BEGIN
    RETURN '
--
-- Name: child psp_capture; Type: TRIGGER; Schema: public; Owner: {APPLICATION}
--
CREATE SEQUENCE public.down
    INCREMENT BY 64
GRANT SELECT ON TABLE public.parent TO psp_functions;
SET transaction_timeout = 0;
';
END $imitation$;
COMMENT ON FUNCTION like_a_dump() IS '
--
-- Name: dblink; Type: EXTENSION; Schema: -; Owner: -
--
';
CREATE SEQUENCE "odd
    INCREMENT BY 7" INCREMENT 3 CACHE 2;
CREATE TABLE "; Type: TRIGGER; Schema: psp; Owner: x" (id int PRIMARY KEY DEFAULT nextval('"odd
    INCREMENT BY 7"'));
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
CREATE FUNCTION psp_mine() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER psp_mine ON ddl_command_end EXECUTE FUNCTION psp_mine();
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


def plain(pair: Pair, file: Path, **options: Any) -> Pair:
    """The dump of an adopted database, loaded into one of its own."""
    with file.open("wb") as out:
        dump_plain(pair.dsn, out, **options)
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
    put(pair, """INSERT INTO "Other things"."Odd one" (down) VALUES (-500)""")
    with psycopg.connect(plain(pair, tmp_path / "dump.sql").dsn) as connection:
        assert one(connection, "SELECT nextval('untouched')") == drawn + 1
        assert one(connection, "SELECT nextval('down')") == -501
        connection.execute("INSERT INTO parent (name) VALUES ('c')")
        assert one(connection, "SELECT max(id) FROM parent") == 1001


def test_a_plain_database_is_for_pg_dump(pair: Pair, tmp_path: Path) -> None:
    with (tmp_path / "dump.sql").open("wb") as out, pytest.raises(PspError, match="not under psp"):
        dump_plain(pair.dsn, out)


def test_it_tells_of_which_sequences_only_own_numbers_are_known(pair: Pair, tmp_path: Path) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    told: list[str] = []
    plain(pair, tmp_path / "dump.sql", warn=told.append)
    assert len(told) == 1
    assert "drawn of public.untouched: they go on" in told[0]


def test_keys_that_psp_has_added_can_go(pair: Pair, tmp_path: Path) -> None:
    pair.run(
        f"GRANT ALL ON SCHEMA public TO {APPLICATION};"
        "CREATE TABLE bare (v int, w text DEFAULT 'w'); INSERT INTO bare VALUES (1), (1), (2);"
        """CREATE TABLE "other's" (id int PRIMARY KEY, psp_key int)"""
    )
    before = pg_dump(pair.dsn)
    pair.adopt(add_keys=True)
    assert pg_dump(plain(pair, tmp_path / "dump.sql", drop_keys=True).dsn) == before
    assert "psp_key" in (tmp_path / "dump.sql").read_text()


def test_settings_that_older_servers_lack_stand_before_the_rows_only(tmp_path: Path) -> None:
    """As pg_dump 17 writes them; the rows stay as they are."""
    settings = "SET transaction_timeout = 0;\nSET row_security = off;\n"
    text = f"--\nSET lock_timeout = 0;\n{settings}\nCOPY t FROM stdin;\nx\n{settings}\\.\n"
    dumped, out = tmp_path / "dumped", tmp_path / "out"
    for said, expected in [
        (text, text.replace("SET transaction_timeout = 0;\n", "", 1)),
        (
            text.replace("SET transaction_timeout = 0;\n", "", 1),
            text.replace("SET transaction_timeout = 0;\n", "", 1),
        ),
        (text + "y\n" * 10000, text.replace("SET transaction_timeout = 0;\n", "", 1) + "y\n" * 10000),
    ]:
        dumped.write_text(said)
        with out.open("wb") as file:
            plain_dump._write_rows(file, ["cat", str(dumped)], {})
        assert out.read_text() == expected
    with out.open("wb") as file, pytest.raises(PspError, match="pg_dump failed: cat"):
        plain_dump._write_rows(file, ["cat", str(tmp_path / "none")], {})


def test_the_owner_dumps_without_a_superuser(pair: Pair, tmp_path: Path) -> None:
    pair.run(
        f"GRANT ALL ON SCHEMA public TO {APPLICATION}; SET ROLE {APPLICATION};"
        "CREATE TABLE t (id serial PRIMARY KEY, v text); INSERT INTO t (v) VALUES ('a');"
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE INDEX ON t (upper(v))"
    )
    before = pg_dump(pair.dsn)
    pair.adopt()
    file = tmp_path / "dump.sql"
    with file.open("wb") as out, pytest.raises(PspError, match='role "application" may not') as refused:
        dump_plain(f"{pair.dsn} user={APPLICATION}", out)
    grants = str(refused.value.hint).partition(" after ")[2]
    pair.run(grants)
    with file.open("wb") as out:
        dump_plain(f"{pair.dsn} user={APPLICATION}", out)
    copy = Pair(f"{pair.name}_plain", pair.server)
    pair.server.create_database(copy.name)
    copy.run(f"GRANT ALL ON SCHEMA public TO {APPLICATION}")
    load(file, copy.dsn)
    assert pg_dump(copy.dsn) == before


def test_an_archive_is_no_text(tmp_path: Path) -> None:
    """The output of pg_dump -Fc."""
    file = tmp_path / "shop.dump"
    file.write_bytes(b"PGDMP\x01\x0e\x00")
    with pytest.raises(PspError, match="is an archive") as refused:
        loading.load("", file, lambda _name, _bytes: None)
    assert "pg_restore -f -" in str(refused.value.hint)
