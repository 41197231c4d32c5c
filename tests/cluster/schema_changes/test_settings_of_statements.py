"""A statement means the same at every SP as PostgreSQL has read it where it ran first, or it is refused."""

from collections.abc import Callable, Iterator
from typing import LiteralString

import psycopg
import pytest
from psp import paths
from psp.cluster.local import LocalCluster, SpNode
from psycopg import sql

from tests.cluster.schema_changes.statements import changes
from tests.cluster.support import as_admin, connect, execute, settle, wait_for_row

SCHEMA = """
CREATE UNLOGGED TABLE aside (id int);
INSERT INTO aside VALUES (1);
CREATE FUNCTION sets(name text, value text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RETURN set_config(name, value, false); END $$;
CREATE FUNCTION makes_view() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN CREATE VIEW made AS SELECT 'C:\\\\dir' AS v; RETURN 1; END $$;
"""

Session = psycopg.Connection[tuple[object, ...]]

VIEW: LiteralString = r"CREATE VIEW made AS SELECT 'C:\\dir' AS v"
STRINGS: LiteralString = "standard_conforming_strings"


@pytest.fixture(params=["module", "sql"])
def sender(pair: LocalCluster, request: pytest.FixtureRequest) -> Iterator[SpNode]:
    """The SP where statements run first, with either kind of capture."""
    if request.param == "module" and paths.module_dir(paths.server_version()) is None:
        pytest.skip("it needs the server module, which is not built")
    north = pair.sps[0]
    use_capture(north, request.param)
    yield north
    with connect(north, autocommit=True) as connection:
        connection.execute("DROP VIEW IF EXISTS made; DROP TABLE IF EXISTS made_table")
        connection.execute("ALTER TABLE aside DROP COLUMN IF EXISTS day, DROP COLUMN IF EXISTS w")
    settle(pair)


def use_capture(sp: SpNode, capture: str) -> None:
    with connect(as_admin(sp)) as connection:
        if connection.execute("SELECT capture FROM psp.identity").fetchone() != (capture,):
            connection.execute("SELECT psp.use_capture(%s)", [capture])


def is_by_module(sp: SpNode) -> bool:
    return execute(as_admin(sp), "SELECT capture FROM psp.identity") == [("module",)]


def outcome(pair: LocalCluster, run: Callable[[Session], object]) -> str:
    """What a session's statements come to: refused, or what is the same at both SPs."""
    north, south = pair.sps
    before = changes(north)
    with connect(north, autocommit=True) as connection:
        try:
            run(connection)
        except psycopg.errors.FeatureNotSupported as error:
            assert error.diag.message_hint
            assert changes(north) == before
            return "refused"
    assert changes(north) > before, "nothing went with the stream"
    wait_for_row(as_admin(south), "SELECT 1 FROM psp.schema_history WHERE change >= %s", [changes(north)])
    assert definitions(south) == definitions(north)
    return "the same"


def definitions(sp: SpNode) -> list[tuple[object, ...]]:
    found = execute(
        sp,
        """
        SELECT definition FROM pg_views WHERE viewname = 'made'
        UNION ALL
        SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = 'aside'::regclass
        """,
    )
    if execute(sp, "SELECT to_regclass('made_table') IS NOT NULL") == [(True,)]:
        found += execute(sp, "SELECT t::text FROM made_table t")
    return found


def setting(name: LiteralString, value: LiteralString) -> LiteralString:
    return f"SET {name} = {value}"


def test_a_message_of_any_length(pair: LocalCluster, sender: SpNode) -> None:
    """The daemon reads a message up to 1 MiB."""

    def run(connection: Session) -> None:
        connection.execute(f"SELECT '{'x' * (1 << 20)}'; CREATE VIEW made AS SELECT 'a' AS v".encode())

    if not is_by_module(sender):
        pytest.skip("SQL asks the daemon")
    assert outcome(pair, run) == "the same"


STRINGS_CHANGE: dict[str, list[LiteralString]] = {
    "a function": [setting(STRINGS, "off"), f"SELECT sets('{STRINGS}', 'on'); {VIEW}"],
    "a function, the other way": [f"SELECT sets('{STRINGS}', 'off'); {VIEW}"],
    "a name that is put together": [
        f"SELECT set_config('standard_' || 'conforming_strings', 'off', false); {VIEW}"
    ],
    "a block": [
        setting(STRINGS, "off"),
        f"DO $$ BEGIN PERFORM sets('standard_' || 'conforming_strings', 'on'); END $$; {VIEW}",
    ],
    "a row that is written": [
        setting(STRINGS, "off"),
        f"INSERT INTO aside SELECT length(sets('standard_' || 'conforming_strings', 'on')); {VIEW}",
    ],
    "a table's default": [
        setting(STRINGS, "off"),
        f"ALTER TABLE aside ADD w text DEFAULT sets('standard_' || 'conforming_strings', 'on'); {VIEW}",
    ],
    "the end of SET LOCAL": ["BEGIN", f"SET LOCAL {STRINGS} = off", f"COMMIT; {VIEW}"],
    "RESET": [setting(STRINGS, "off"), f"RESET {STRINGS}; {VIEW}"],
    "SET": [setting(STRINGS, "off"), f"{setting(STRINGS, 'on')}; {VIEW}"],
    "RESET ALL": [setting(STRINGS, "off"), f"RESET ALL; {VIEW}"],
    "ROLLBACK TO": ["BEGIN; SAVEPOINT s", setting(STRINGS, "off"), f"ROLLBACK TO s; {VIEW}", "COMMIT"],
}


@pytest.mark.parametrize("how", STRINGS_CHANGE)
def test_literals_of_a_message(pair: LocalCluster, sender: SpNode, how: str) -> None:
    """PostgreSQL has taken the message apart before anything in it has changed the setting."""

    def run(connection: Session) -> None:
        for message in STRINGS_CHANGE[how]:
            connection.execute(message)

    assert outcome(pair, run) == "refused"


STRINGS_STAY: dict[str, tuple[list[LiteralString], str]] = {
    "the same value": ([f"{setting(STRINGS, 'on')}; {VIEW}"], "module"),
    "the same value in a function": ([f"SELECT sets('{STRINGS}', 'on'); {VIEW}"], "module"),
    "off all the time": ([setting(STRINGS, "off"), f"SELECT 1; {VIEW}"], "module"),
    "after COMMIT": ([f"BEGIN; COMMIT; {VIEW}"], "module"),
    "beside others": (
        [f"BEGIN; SET search_path = public; {VIEW}; COMMENT ON VIEW made IS '\\d'; COMMIT"],
        "both",
    ),
    "changed behind it": ([f"{VIEW}; {setting(STRINGS, 'off')}"], "both"),
    "behind ROLLBACK": (
        ["BEGIN; CREATE VIEW undone AS SELECT 1; ROLLBACK; CREATE VIEW made AS SELECT 'C:/dir' AS v"],
        "module",
    ),
    "behind ROLLBACK TO": (
        [
            "BEGIN",
            "SAVEPOINT s; CREATE VIEW undone AS SELECT 1; ROLLBACK TO s; CREATE VIEW made AS SELECT 'a' AS v",
            "COMMIT",
        ],
        "module",
    ),
    "off, and another place for the end": (
        [
            setting(STRINGS, "off"),
            r"SELECT 'a\'; '; CREATE VIEW made AS SELECT 'b\'; c' AS v /* ; */; SELECT ';'",
        ],
        "module",
    ),
    "among comments": (
        [f"SELECT 1 /* ; /* ; */ */; -- ;\n /* ; */ {VIEW} -- ;\n /* ' */ ; SELECT 2"],
        "module",
    ),
    "without a backslash": (
        [f"SELECT sets('{STRINGS}', 'off'); CREATE VIEW made AS SELECT 'C:/dir' AS v"],
        "module",
    ),
}


@pytest.mark.parametrize("how", STRINGS_STAY)
def test_literals_of_a_message_that_mean_one_thing(pair: LocalCluster, sender: SpNode, how: str) -> None:
    messages, where = STRINGS_STAY[how]

    def run(connection: Session) -> None:
        for message in messages:
            connection.execute(message)

    assert outcome(pair, run) == ("the same" if where == "both" or is_by_module(sender) else "refused")


MADE: LiteralString = "CREATE UNLOGGED TABLE made_table AS "

PREPARED: dict[str, list[LiteralString]] = {
    VIEW: [setting(STRINGS, "off"), setting(STRINGS, "on")],
    r"CREATE INDEX CONCURRENTLY aside_id ON aside ((id::text = 'C:\\dir'))": [
        setting(STRINGS, "off"),
        setting(STRINGS, "on"),
    ],
    f"{MADE} SELECT '01/02/2020'::date AS day": ["SET datestyle = 'ISO, DMY'", "SET datestyle = 'ISO, MDY'"],
    f"{MADE} SELECT id = NULL AS is_null FROM aside": [
        "SET transform_null_equals = on",
        "SET transform_null_equals = off",
    ],
}


@pytest.mark.parametrize("statement", PREPARED)
def test_a_prepared_statement(pair: LocalCluster, sender: SpNode, statement: LiteralString) -> None:
    """It was read when it was prepared. (SQL does not know that.)"""
    before, after = PREPARED[statement]

    def run(connection: Session) -> None:
        connection.execute(before)
        connection.pgconn.prepare(b"made", statement.encode())
        connection.execute(after)
        result = connection.pgconn.exec_prepared(b"made", [])
        if result.error_message:
            raise psycopg.errors.error_from_result(result)

    if not is_by_module(sender):
        pytest.skip("SQL knows no statement but its text")
    assert outcome(pair, run) == "refused"


def test_a_statement_that_a_function_has_kept(pair: LocalCluster, sender: SpNode) -> None:
    """PL/pgSQL reads its statements once in a session."""

    def run(connection: Session) -> None:
        with connection.transaction(force_rollback=True):
            connection.execute(f"SET LOCAL {STRINGS} = off")
            connection.execute("SELECT makes_view()")
        connection.execute("SELECT makes_view()")

    if not is_by_module(sender):
        pytest.skip("SQL knows no statement but its text")
    assert outcome(pair, run) == "refused"


CHANGES_INSIDE: list[LiteralString] = [
    f"{MADE} SELECT sets('datestyle', 'ISO, DMY') AS s, '01/02/2020'::date AS day",
    "ALTER TABLE aside ADD COLUMN day date DEFAULT '01/02/2020', "
    "ADD COLUMN w text DEFAULT sets('datestyle', 'ISO, DMY')",
]


@pytest.mark.parametrize("statement", CHANGES_INSIDE)
def test_a_statement_that_changes_settings_itself(
    pair: LocalCluster, sender: SpNode, statement: LiteralString
) -> None:
    """What it means depends on those before it."""
    assert outcome(pair, lambda connection: connection.execute(statement)) == "the same"


def test_a_statement_that_changes_the_role(pair: LocalCluster, sender: SpNode) -> None:
    """Elsewhere it would run as the later one."""
    role = f"later_by_{'module' if is_by_module(sender) else 'sql'}"
    name = sql.Identifier(role)
    with connect(as_admin(sender)) as connection:
        connection.execute(
            sql.SQL("CREATE ROLE {}; GRANT {} TO {}").format(name, name, sql.Identifier("app"))
        )
        connection.execute(sql.SQL("GRANT EXECUTE ON FUNCTION psp.ddl(text) TO {}").format(name))

    def run(connection: Session) -> None:
        connection.execute(
            sql.SQL("CREATE UNLOGGED TABLE made_table AS SELECT sets('role', {}) AS role").format(role)
        )

    assert outcome(pair, run) == "refused"


def test_settings_of_the_application_before_a_statement(pair: LocalCluster, sender: SpNode) -> None:
    def run(connection: Session) -> None:
        connection.execute("SET app.tenant = one")
        connection.execute(
            "CREATE UNLOGGED TABLE made_table AS "
            "SELECT current_setting('app.tenant', true) AS tenant, sets('app.tenant', 'two') AS later"
        )

    assert outcome(pair, run) == "the same"


def test_a_setting_of_the_application_that_was_not_there(pair: LocalCluster, sender: SpNode) -> None:
    name = sql.Literal(f"app.other_by_{'module' if is_by_module(sender) else 'sql'}")

    def run(connection: Session) -> None:
        connection.execute(
            sql.SQL(
                "CREATE UNLOGGED TABLE made_table AS "
                "SELECT current_setting({0}, true) AS tenant, sets({0}, 'two') AS later"
            ).format(name)
        )

    assert outcome(pair, run) == "the same"


def test_settings_are_those_of_the_beginning(pair: LocalCluster, sender: SpNode) -> None:
    statement = sql.SQL("SELECT settings ->> 'datestyle' FROM psp.schema_history WHERE statement = {}")
    execute(sender, CHANGES_INSIDE[0])
    with connect(as_admin(sender)) as connection:
        found = connection.execute(statement.format(CHANGES_INSIDE[0])).fetchall()
    assert found[-1] == ("ISO, MDY",)
