"""A database with more tables than the server can lock at once is told so before the work begins."""

from dataclasses import replace

import pytest
from psp.output import PspError
from psp.problems import Problem
from psp.schema import join, modes, rules
from psp.schema.catalog import read_database
from psp.schema.join import prepare_join
from psp.schema.model import Database
from psp.schema.server import ServerFacts, read_facts

from tests.sql.databases import Pair

TABLES = "".join(
    f"CREATE TABLE t{n} (id serial PRIMARY KEY, s text UNIQUE, r int REFERENCES t{max(n - 1, 0)});"
    for n in range(8)
)


def read(pair: Pair) -> tuple[Database, ServerFacts]:
    with pair.connect() as connection:
        return read_database(connection), read_facts(connection)


def told(pair: Pair, tables: int) -> list[Problem]:
    """With so many tables, as one of the database's own is."""
    database, facts = read(pair)
    [table] = [table for table in database.tables if table.name == "t1"]
    sequence = database.sequences[0]
    many = replace(database, tables=(table,) * tables, sequences=(sequence,) * tables)
    return list(rules.room_for_locks(many, replace(facts, locks_per_transaction=64, transactions_max=122)))


def test_it_is_told_what_to_set(pair: Pair) -> None:
    pair.run(TABLES)
    assert told(pair, 200) == []
    assert [problem.severity for problem in told(pair, 300)] == ["warning"]
    [problem] = told(pair, 2000)
    assert problem.severity == "error"
    assert "room for 7,808 locks" in problem.problem
    assert "max_locks_per_transaction = 576, and a restart" in problem.hint


def test_a_join_refuses_before_the_long_part(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.run(TABLES)
    pair.adopt()
    two = Pair(f"{pair.name}_two", pair.server)
    two.server.create_database(two.name)
    monkeypatch.setattr(rules, "LOCKS_OF_TABLE", 10**6)
    with pytest.raises(PspError, match="a join locks up to 8,") as refused:
        prepare_join(two.dsn, pair.primary_dsn, "two")
    assert "max_locks_per_transaction" in str(refused.value.hint)
    assert read(two)[0].tables == ()


def test_the_need_is_not_less_than_what_is_locked(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted at the end of a join's transaction, which locks more than adoption does."""
    pair.run(TABLES)
    pair.adopt()
    two = Pair(f"{pair.name}_two", pair.server)
    two.server.create_database(two.name)
    counted: list[int] = []
    install = modes.install

    def count(*arguments: object) -> None:
        install(*arguments)  # type: ignore[arg-type]
        rows = arguments[0].execute(  # type: ignore[attr-defined]
            "SELECT count(DISTINCT (locktype, database, relation, classid, objid, objsubid)) FROM pg_locks "
            "WHERE pid = pg_backend_pid()"
        )
        counted.extend(rows.fetchone())

    monkeypatch.setattr(join, "install", count)
    prepare_join(two.dsn, pair.primary_dsn, "two")
    assert counted[0] <= rules.locks_needed(read(two)[0]) <= 2 * counted[0]
