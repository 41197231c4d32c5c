"""The kinds of schema changes of what stands beside tables: types, sequences, references, copies."""

from tests.fuzz.changes.generator import Changes
from tests.fuzz.changes.steps import COLUMNS, HERE, Step, Table


def copy(make: Changes) -> list[Step]:
    """A table like another one, or made of its rows."""
    table, made = make.table(), Table(make.new_name(), HERE, make.changer())
    name, source = made.name.spelled(make.random), make.spell(table)
    make.tables.append(made)
    return make.change(
        made.owner,
        make.pick(
            f"CREATE~TABLE~{name}~(LIKE~{source} INCLUDING ALL)",
            f"CREATE~TABLE~{name} (LIKE {source} INCLUDING DEFAULTS, PRIMARY KEY (id))",
            f"CREATE~TABLE~{name} AS~SELECT * FROM {source}; ALTER TABLE {name} ADD~PRIMARY KEY (id)",
            f"SELECT~id, a, b, at, d~INTO~{name}~FROM~{source}; ALTER TABLE {name} ADD PRIMARY KEY (id)",
            f"CREATE TABLE {name} (extra int, PRIMARY KEY (id)) INHERITS ({source})",
            f"CREATE~UNLOGGED~TABLE {name}~AS SELECT 1 AS one, b FROM {source}",
        ),
    )


def reference(make: Changes) -> list[Step]:
    table, other = make.table(), make.table()
    action = make.pick("", " ON DELETE CASCADE", " ON DELETE SET NULL ON UPDATE CASCADE", " DEFERRABLE")
    valid = make.pick("", "~NOT VALID")
    added = (
        f"ALTER~TABLE~{make.spell(table)} ADD~FOREIGN KEY~(a) REFERENCES~{make.spell(other)}{action}{valid}"
    )
    return [*make.send(table, added), *make.writes(), *make.writes()]


def rename(make: Changes) -> list[Step]:
    """The generator goes on with the old name."""
    table, name = make.table(), make.new_name().spelled(make.random)
    there = f'"{table.schema}".{name}'
    back = f"ALTER TABLE {there} RENAME TO {table.name.quoted}"
    return [
        *make.send(table, f"ALTER~TABLE~{make.spell(table)}~RENAME TO~{name}"),
        Step(
            make.sp(),
            table.owner,
            (f"INSERT INTO {there} (id, b) VALUES (1, 'new') ON CONFLICT DO NOTHING", back),
        ),
    ]


def types(make: Changes) -> list[Step]:
    table, number = make.table(), make.number()
    name, role = f"here.kind_{number}", table.owner
    made, changed = make.random.choice(
        (
            (f"CREATE~TYPE~{name} AS ENUM ('one', 'it''s')", f"ALTER~TYPE~{name}~ADD VALUE 'two \\'"),
            (
                f"CREATE TYPE {name} AS ENUM ('one', 'two')",
                f"ALTER TYPE~{name} RENAME VALUE~'one' TO 'first'",
            ),
            (f"CREATE TYPE~{name} AS (x int, y text)", f"ALTER TYPE {name} ADD ATTRIBUTE z int"),
            (f"CREATE DOMAIN {name} AS text", f"ALTER DOMAIN {name} ADD CHECK (VALUE <> 'C:\\\\')"),
            (f"CREATE DOMAIN~{name} AS int DEFAULT 7", f"ALTER~DOMAIN {name} SET NOT NULL"),
        )
    )
    return [
        *make.change(role, made),
        *make.send(table, f"ALTER TABLE {make.spell(table)} ADD k_{number} {name}"),
        *make.writes(),
        *make.change(role, changed),
        *make.writes(),
    ]


def sequence(make: Changes) -> list[Step]:
    table, number = make.table(), make.number()
    name = f"here.numbers_{number}"
    return [
        *make.change(
            table.owner, f"CREATE~SEQUENCE~{name}~{make.pick('', 'START 100', 'INCREMENT -1', 'AS smallint')}"
        ),
        *make.change(
            table.owner, f"ALTER TABLE {make.spell(table)} ALTER~a SET DEFAULT nextval('{name}'::regclass)"
        ),
        Step(make.sp(), table.owner, (f"INSERT INTO {table.sql} (id) VALUES (12) ON CONFLICT DO NOTHING",)),
        *make.change(
            table.owner, make.pick(f"DROP~SEQUENCE~{name} CASCADE", f"ALTER SEQUENCE {name} OWNED BY NONE")
        ),
    ]


def default_rights(make: Changes) -> list[Step]:
    """Of what the role makes from then on; taken back later."""
    role = make.changer()
    what = make.pick("TABLES", "FUNCTIONS", "SEQUENCES", "TYPES")
    scope = make.pick("", f"~IN SCHEMA {HERE}")
    given = f"ALTER~DEFAULT PRIVILEGES{scope} GRANT~ALL ON~{what} TO cid"
    taken = f"ALTER DEFAULT PRIVILEGES{scope} REVOKE ALL ON {what} FROM cid"
    return [*make.change(role, given), *make.create_table(), *make.change(role, taken)]


def schema(make: Changes) -> list[Step]:
    """One that brings its elements along; it goes at the end of the step."""
    name, number = make.pick('"New schema"', "new_schema", 'U&"\\006eew;schema"'), make.number()
    elements = (
        f"CREATE TABLE inside_{number} (id int PRIMARY KEY, {COLUMNS}) CREATE INDEX ON inside_{number} (a)"
    )
    return [
        *make.change("app", f"CREATE~SCHEMA~{name}~{make.pick('', elements)}"),
        *make.change("app", f"CREATE TABLE IF NOT EXISTS {name}.inside_{number} (id int PRIMARY KEY, a int)"),
        Step(make.sp(), "app", (f"INSERT INTO {name}.inside_{number} (id) VALUES (1)",)),
        *make.change("app", f"DROP~SCHEMA~IF EXISTS~{name}~CASCADE"),
    ]
