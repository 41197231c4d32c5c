"""psp.advance_sequences: numbers that a crash gave back are not drawn again, and nothing else changes."""

import psycopg
import pytest
from psp.sql_files import read_sql

from tests.sql.databases import Pair

SCHEMA = """
CREATE TABLE own (id serial PRIMARY KEY);
CREATE SEQUENCE lent; CREATE TABLE borrower (id bigint PRIMARY KEY DEFAULT nextval('lent'), n int);
CREATE TABLE down (id int PRIMARY KEY);
CREATE SEQUENCE falling INCREMENT -1;
ALTER TABLE down ALTER id SET DEFAULT nextval('falling');
CREATE TABLE label (
    id text PRIMARY KEY DEFAULT 'x' || nextval('lent'),
    n  smallint GENERATED ALWAYS AS IDENTITY
);
ALTER SEQUENCE lent OWNED BY label.id;
"""
ADVANCE = "SELECT psp.advance_sequences()"
FOLLOW = read_sql("semi_primary/daemon/follow_sequences.sql").decode().replace("<> $1", "<> %s").encode()


def put(pair: Pair, script: str) -> None:
    """As the apply worker does."""
    claim = read_sql("semi_primary/daemon/apply_claim.sql").decode()
    pair.run(f"{claim}; SET session_replication_role = replica; {script}")


def test_moves_within_its_class(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    with pair.connect(autocommit=True) as connection:
        draw = {name: f"SELECT nextval('{name}')".encode() for name in ("own_id_seq", "lent", "falling")}
        first = {name: connection.execute(query).fetchall()[0][0] for name, query in draw.items()}
        put(pair, "INSERT INTO own VALUES (1000); INSERT INTO borrower VALUES (5000)")
        put(pair, "INSERT INTO down VALUES (-700)")
        assert connection.execute(ADVANCE).fetchone() == (3,)
        after = {name: connection.execute(query).fetchall()[0][0] for name, query in draw.items()}
        assert connection.execute(ADVANCE).fetchone() == (0,)
    assert (
        1000 < after["own_id_seq"] <= 1064
        and 5000 < after["lent"] <= 5064
        and -764 <= after["falling"] < -700
    )
    assert all((after[name] - first[name]) % 64 == 0 for name in first)


def test_never_moves_back(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    put(pair, "INSERT INTO own VALUES (100)")
    with pair.connect(autocommit=True) as connection:
        drawn = connection.execute("SELECT max(nextval('own_id_seq')) FROM generate_series(1, 10)").fetchall()
        assert connection.execute(ADVANCE).fetchone() == (0,)
        assert connection.execute("SELECT last_value FROM own_id_seq").fetchall() == drawn


def test_the_largest_possible_value_does_not_exhaust_it(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    put(pair, "INSERT INTO own VALUES (2147483647), (300)")
    with pair.connect(autocommit=True) as connection:
        assert connection.execute(ADVANCE).fetchone() == (1,)
        assert 300 < connection.execute("SELECT nextval('own_id_seq')").fetchall()[0][0] <= 364


def test_rows_of_others_are_followed_but_not_to_the_end(pair: Pair) -> None:
    """One row near the end would use the sequence up, which it does not do on one PostgreSQL."""
    pair.run(SCHEMA + "CREATE TABLE bare (k int PRIMARY KEY, id serial)")
    pair.adopt()
    put(pair, "INSERT INTO own VALUES (300), (1000000000); INSERT INTO down VALUES (-700)")
    put(pair, "INSERT INTO bare VALUES (1, 300)")
    follow = "SELECT psp.advance_sequences(true)"
    with pair.connect(autocommit=True) as connection:
        assert connection.execute(follow).fetchone() == (2,)
        assert connection.execute(follow).fetchone() == (0,)
        assert 300 < connection.execute("SELECT nextval('own_id_seq')").fetchall()[0][0] <= 364
        assert -764 <= connection.execute("SELECT nextval('falling')").fetchall()[0][0] < -700
        assert connection.execute("SELECT nextval('bare_id_seq')").fetchall()[0][0] < 300


def test_who_is_drawing_is_in_nobodys_way(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    put(pair, "INSERT INTO own VALUES (1000); INSERT INTO down VALUES (-1000)")
    with pair.connect() as other, pair.connect(autocommit=True) as connection:
        other.execute("SELECT nextval('own_id_seq'), nextval('falling')")
        assert connection.execute(ADVANCE).fetchone() == (2,)
        assert connection.execute(ADVANCE).fetchone() == (0,)
        assert 1000 < other.execute("SELECT nextval('own_id_seq')").fetchall()[0][0] <= 1064
        assert -1064 <= other.execute("SELECT nextval('falling')").fetchall()[0][0] < -1000


def test_a_long_way_waits_for_nobody(pair: Pair) -> None:
    pair.run(SCHEMA)
    pair.adopt()
    put(pair, "INSERT INTO own VALUES (1000000000)")
    with pair.connect() as other, pair.connect(autocommit=True) as connection:
        other.execute("SELECT nextval('own_id_seq')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(ADVANCE)
        other.commit()
        assert connection.execute(ADVANCE).fetchone() == (1,)


def test_only_what_has_been_applied_counts_as_followed(pair: Pair) -> None:
    """What is decided and not applied yet is for the next look, although nothing more may come until then."""
    pair.run(SCHEMA)
    pair.adopt()
    with pair.connect(autocommit=True) as connection:
        ((before, _),) = connection.execute(FOLLOW, (-7,)).fetchall()
        assert connection.execute(FOLLOW, (before,)).fetchall() == []
        put(pair, f"INSERT INTO own VALUES (1000); INSERT INTO psp.watermarks VALUES ({before} + 5)")
        assert connection.execute(FOLLOW, (before,)).fetchall() == [(before + 5, 1)]
        assert connection.execute(FOLLOW, (before + 5,)).fetchall() == []
