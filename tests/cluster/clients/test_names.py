"""Names that would break SQL that is put together carelessly, and clients that speak other encodings."""

from collections.abc import Iterator

import psycopg
import pytest
from psp.cluster import verify
from psp.cluster.local import LocalCluster
from psycopg.sql import SQL, Composed, Identifier

from tests.cluster.support import WAIT_S, adopted_pair, connect, execute

NASTY = "a\"b'c\\d%I%1$s$psp$ {{ e }}\n--f"
SCHEMA, TYPE, FUNCTION, TABLE, INDEX = (Identifier(kind + NASTY) for kind in ("s", "y", "f", "t", "i"))
KEY, TEXT, MOOD, COMPUTED = (Identifier(kind + NASTY) for kind in ("k", "v", "m", "g"))
PARTED, PART, OTHER_PART = (Identifier(kind + NASTY) for kind in ("p", "q", "r"))
# psp's own words are columns like others.
DEFINITION = SQL("""
CREATE SCHEMA {schema};
SET search_path = {schema};
CREATE TYPE {type} AS ENUM ('a''b', 'c"d', 'e\\f', '%s', '$psp$');
CREATE FUNCTION {function}(x text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT pg_catalog.lower(x)';
CREATE TABLE {table} ({key} bigserial, {text} text, x int UNIQUE, psp_new text, decided int, "NEW" int,
    {mood} {type} DEFAULT '$psp$', {computed} int GENERATED ALWAYS AS (x + 1) STORED,
    PRIMARY KEY ({key}, {text}));
CREATE UNIQUE INDEX {index} ON {table} ({function}(psp_new)) WHERE psp_new <> 'a''%s$psp$\\';
CREATE TABLE {parted} ({key} int PRIMARY KEY, {text} text) PARTITION BY RANGE ({key});
CREATE TABLE {part} PARTITION OF {parted} FOR VALUES FROM (0) TO (100);
CREATE TABLE {other_part} PARTITION OF {parted} FOR VALUES FROM (100) TO (1000);
RESET search_path;
CREATE TABLE word (k text PRIMARY KEY, v text UNIQUE, n int);
""").format(
    schema=SCHEMA, type=TYPE, function=FUNCTION, table=TABLE, index=INDEX, key=KEY, text=TEXT, mood=MOOD,
    computed=COMPUTED, parted=PARTED, part=PART, other_part=OTHER_PART,
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with adopted_pair([DEFINITION.as_string()]) as made:
        yield made


def filled(statement: str) -> Composed:
    """With the names of the tables and columns."""
    return SQL(statement).format(
        t=Identifier("s" + NASTY, "t" + NASTY), p=Identifier("s" + NASTY, "p" + NASTY), k=KEY, v=TEXT, m=MOOD
    )


def test_names_with_quotes_percent_signs_and_newlines(cluster: LocalCluster) -> None:
    first, second = cluster.sps
    with connect(first, autocommit=True) as connection:
        connection.execute(
            filled(
                "INSERT INTO {t} ({v}, x, psp_new) SELECT n::text, n, 'P' || n FROM generate_series(1, 5) n"
            )
        )
        connection.execute(filled("INSERT INTO {p} VALUES (1, 'a'), (101, 'b')"))
    verify.wait_drained(cluster, WAIT_S)
    with connect(second) as connection:  # rows that are touched twice are looked up at COMMIT
        connection.execute(filled("UPDATE {t} SET x = x + 10"))
        connection.execute(filled("UPDATE {t} SET x = x + 10, {m} = 'e\\f', decided = 7"))
        connection.execute(filled("UPDATE {t} SET {v} = 'z''\\' WHERE x = 21"))
        connection.execute(filled("DELETE FROM {t} WHERE x = 22"))
        connection.execute(filled("UPDATE {p} SET {k} = {k} + 200 WHERE {k} = 1"))
        connection.execute(filled("UPDATE {p} SET {v} = 'c'"))
    verify.wait_drained(cluster, WAIT_S)
    with connect(first) as connection:
        rows = connection.execute(filled("SELECT {v}, x, {m}::text FROM {t} ORDER BY x")).fetchall()
        assert rows == [("z'\\", 21, "e\\f"), *((str(n), n + 20, "e\\f") for n in (3, 4, 5))]
        assert connection.execute(filled("SELECT {k}, {v} FROM {p} ORDER BY 1")).fetchall() == [
            (101, "c"),
            (201, "c"),
        ]
    assert verify.verify(cluster, WAIT_S).consistent


# The second byte of some of these letters is a backslash.
@pytest.mark.parametrize(
    ("encoding", "word"), [("SJIS", "表ソ能\\"), ("BIG5", "功\\"), ("GB18030", "中\\"), ("LATIN1", "é\\")]
)
def test_clients_in_other_encodings(cluster: LocalCluster, encoding: str, word: str) -> None:
    first, second = cluster.sps
    with connect(first, client_encoding=encoding) as connection:
        connection.execute("DELETE FROM word")
        connection.execute("INSERT INTO word VALUES (%s, %s, 1)", (word, word + "1"))
        connection.commit()
        connection.execute("UPDATE word SET n = n + 1 WHERE k = %s", (word,))
        connection.execute("UPDATE word SET k = k || '2', v = %s WHERE k = %s", (word + "3", word))
        connection.commit()
        assert connection.execute("SELECT k FROM word").fetchall() == [(word + "2",)]
    verify.wait_drained(cluster, WAIT_S)
    assert execute(second, "SELECT * FROM word") == [(word + "2", word + "3", 2)]


def test_binary_copy_and_pipelines(cluster: LocalCluster) -> None:
    first, second = cluster.sps
    with connect(first, autocommit=True) as connection:
        connection.execute("DELETE FROM word")
        with connection.cursor().copy("COPY word FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["text", "text", "int4"])
            for n in range(100):
                copy.write_row((f"k{n}", f"v{n}", n))
        with pytest.raises(psycopg.errors.UniqueViolation), connection.pipeline() as pipeline:
            connection.execute("INSERT INTO word VALUES ('lost', 'lost', 1)")
            connection.execute("INSERT INTO word VALUES ('k1', 'k1', 1)")
            pipeline.sync()
        with connection.pipeline() as pipeline:  # several transactions on their way at once
            for n in range(10):
                connection.execute("BEGIN")
                connection.execute("UPDATE word SET n = n + 1000 WHERE k = %s", (f"k{n}",))
                connection.execute("UPDATE word SET n = n + 1000 WHERE k = %s", (f"k{n}",))
                connection.execute("COMMIT")
            pipeline.sync()
    verify.wait_drained(cluster, WAIT_S)
    assert execute(second, "SELECT count(*), sum(n) FROM word") == [(100, 4950 + 20000)]
