"""The kinds of schema changes of tables and what belongs to them."""

from tests.fuzz.changes.generator import Changes
from tests.fuzz.changes.steps import COLUMNS, LONG, Step, Table


def alter(make: Changes) -> list[Step]:
    table = make.table()
    column = make.new_name().spelled(make.random)
    what = make.pick(
        f"ADD COLUMN~{column} text DEFAULT {make.literal('b')}",
        f"ADD~{column} int",
        f"ALTER b SET DEFAULT~{make.literal('b')}",
        f"ALTER COLUMN at SET DEFAULT {make.literal('at')}",
        "ALTER b DROP DEFAULT",
        "ALTER a SET NOT NULL",
        "ALTER a DROP NOT NULL",
        "ALTER a TYPE bigint",
        "ALTER b TYPE varchar",
        "ALTER b SET STATISTICS 7",
        "SET (fillfactor = 70)",
        "REPLICA IDENTITY FULL",
        "DROP COLUMN IF EXISTS d",
        f"RENAME COLUMN b TO~{column}",
    )
    return make.send(table, f"ALTER~TABLE~{make.spell(table)}~{what}")


def comment(make: Changes) -> list[Step]:
    table = make.table()
    on = make.pick(f"TABLE~{make.spell(table)}", f"COLUMN~{make.spell(table)}.b")
    return make.send(table, f"COMMENT~ON~{on}~IS~{make.pick(make.literal('b'), QUOTES)}")


QUOTES = "'it''s; \\ '"


def grant(make: Changes) -> list[Step]:
    table = make.table()
    right = make.pick("SELECT", "INSERT", "ALL", "SELECT (a), UPDATE (b)", "TRIGGER")
    who = make.pick("ben", "PUBLIC", "cid", "ann", "CURRENT_USER")
    if make.chance(0.5):
        return make.send(table, f"GRANT~{right}~ON~{make.pick('', 'TABLE~')}{make.spell(table)}~TO~{who}")
    return make.send(table, f"REVOKE~{right}~ON~{make.spell(table)}~FROM~{who}")


def index(make: Changes) -> list[Step]:
    table = make.table()
    name = make.pick("", make.new_name().spelled(make.random))
    what = make.pick(
        "(a)",
        "(a, d)",
        "(lower(left(b, 20)))",
        "(a) WHERE a > 3",
        "(at)",
        "USING hash (b)",
        "(d) INCLUDE (a)",
    )
    unique = "UNIQUE " if make.chance(0.2) and "hash" not in what else ""
    return make.send(table, f"CREATE~{unique}INDEX~{name}~ON~{make.spell(table)}~{what}")


def long_index(make: Changes) -> list[Step]:
    """An index that takes no long value."""
    table = make.table()
    what = make.pick("(b)", "(lower(b))", "(b, a)", "(a) INCLUDE (b)")
    return make.send(table, f"CREATE~INDEX~ON~{make.spell(table)}~{what}")


def long_index_meanwhile(make: Changes) -> list[Step]:
    table = make.table()
    return make.meanwhile(table, make.change(table.owner, f"CREATE~INDEX~ON~{make.spell(table)}~(b)"))


def storage(make: Changes) -> list[Step]:
    table = make.table()
    kind = make.pick("PLAIN", "MAIN", "EXTERNAL")
    return make.send(table, f"ALTER~TABLE~{make.spell(table)} ALTER b SET~STORAGE~{kind}")


def storage_meanwhile(make: Changes) -> list[Step]:
    table = make.table()
    return make.meanwhile(
        table, make.change(table.owner, f"ALTER TABLE~{table.sql} ALTER b SET STORAGE PLAIN")
    )


def _publication(make: Changes, table: Table) -> str:
    what = make.pick("", "~WHERE~(b <> 'x')", "~WHERE~(a > 0)", " (id, a)")
    operations = make.pick("", " WITH (publish = 'insert')", " WITH (publish = 'update, delete')")
    return f"CREATE~PUBLICATION~pub_{make.number()}~FOR TABLE~{make.spell(table)}{what}{operations}"


def publication(make: Changes) -> list[Step]:
    table = make.table()
    return make.change(table.owner, _publication(make, table))


def publication_meanwhile(make: Changes) -> list[Step]:
    table = make.table()
    row = f"UPDATE {table.sql} SET b = 'changed'"
    return make.meanwhile(table, make.change(table.owner, _publication(make, table)), row)


def policy(make: Changes) -> list[Step]:
    table = make.table()
    using = make.pick("a > 3", "false", "b = current_user")
    name = make.new_name().spelled(make.random)
    kind = make.pick("", "AS RESTRICTIVE ")
    state = make.pick("ENABLE", "ENABLE", "DISABLE", "NO FORCE")
    return make.change(
        table.owner,
        f"CREATE POLICY {name} ON {make.spell(table)} {kind}USING ({using})",
        f"ALTER TABLE {make.spell(table)}~{state} ROW LEVEL SECURITY",
    )


def schema_right(make: Changes) -> list[Step]:
    """The schemas' owner takes a right that others' tables need."""
    revoke = make.pick(
        "USAGE ON SCHEMA here FROM ann",
        'ALL ON SCHEMA "Over there" FROM ben',
        "CREATE ON SCHEMA here FROM ben",
        "USAGE ON SCHEMA here FROM PUBLIC",
    )
    back = 'GRANT ALL ON SCHEMA here, "Over there" TO PUBLIC, ann, ben, cid'
    return [*make.change("app", f"REVOKE~{revoke}"), *make.writes(), *alter(make), *make.change("app", back)]


def local_object(make: Changes) -> list[Step]:
    """What stays at one server, over rows of all."""
    table, number = make.table(), make.number()
    on = f"ON {make.spell(table)}"
    what = make.pick(
        f"CREATE INDEX local_{number} {on} (b)",
        f"CREATE INDEX local_{number} {on} ((1 / (a - 3)))",
        f"CREATE PUBLICATION local_{number} FOR TABLE {make.spell(table)} WHERE (b <> 'x')",
        f"CREATE VIEW here.local_{number} AS SELECT a FROM {make.spell(table)}",
        f"CREATE POLICY local_{number} {on} USING (false)",
        f"CREATE STATISTICS here.local_{number} ON a, b FROM {make.spell(table)}",
        f"CREATE RULE local_{number} AS ON INSERT TO {make.spell(table)} DO INSTEAD NOTHING",
        f"CREATE MATERIALIZED VIEW here.local_{number} AS SELECT 1 / (a - 3) AS q FROM {make.spell(table)}",
        f"CREATE FUNCTION here.local_{number}() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    return [*make.locally(table.owner, what), *make.writes(), *make.writes()]


def local_storage(make: Changes) -> list[Step]:
    table = make.table()
    what = make.pick("SET STORAGE PLAIN", "SET COMPRESSION pglz", "SET STATISTICS 3")
    local = make.locally(table.owner, f"ALTER TABLE {make.spell(table)} ALTER b {what}")
    back = Step(
        local[0].sp, table.owner, ("SET psp.schema_changes = local", f"ALTER TABLE {table.sql} {BACK}")
    )
    return [*local, *make.writes(), *make.writes(), back]


BACK = "ALTER b SET STORAGE EXTENDED, ALTER b SET COMPRESSION default, ALTER b SET STATISTICS -1"


def view(make: Changes) -> list[Step]:
    table, name = make.table(), make.new_name().spelled(make.random)
    kind = make.pick("", "OR REPLACE ", "MATERIALIZED ", "TEMP ")
    query = f"SELECT id, b = NULL AS n, {make.literal('at')} AS at FROM {make.spell(table)}"
    return make.change(table.owner, f"CREATE~{kind}VIEW~{name} AS~{query}")


def partitioned(make: Changes) -> list[Step]:
    number, owner = make.number(), make.changer()
    parent, child = f"here.parts_{number}", make.new_name().spelled(make.random)
    low = f"CREATE TABLE here.{child}~PARTITION~OF~{parent} FOR VALUES FROM (1) TO (4)"
    rest = f"CREATE TABLE here.rest_{number} PARTITION OF {parent} DEFAULT"
    return [
        *make.change(owner, f"CREATE TABLE {parent} (id int PRIMARY KEY, {COLUMNS}) PARTITION BY RANGE (id)"),
        *make.change(owner, low),
        *make.change(make.changer(), rest),
        Step(make.sp(), owner, (f"INSERT INTO {parent} VALUES (1, 1, {LONG}), (5, 5, 'x')",)),
    ]


def drop(make: Changes) -> list[Step]:
    table = make.table()
    what = make.pick("DROP~TABLE", "DROP~TABLE~IF EXISTS", "TRUNCATE", "TRUNCATE~TABLE")
    return make.send(table, f"{what}~{make.spell(table)}")


def give_away(make: Changes) -> list[Step]:
    table = make.table()
    owner = make.pick("ann", "ben", "cid", "app")
    return make.change("app", f"ALTER TABLE {make.spell(table)} OWNER TO {owner}")


def temporary(make: Changes) -> list[Step]:
    """A temporary table hides a permanent one, and statements name it."""
    table = make.table()
    name = table.name.quoted
    statements = (
        f"CREATE TEMP TABLE {name} (id int, b text)",
        f"ALTER TABLE {name} ADD x int",
        f"CREATE INDEX ON {name} (b)",
        f"COMMENT ON TABLE {name} IS 'temp'",
        f"GRANT SELECT ON {name} TO PUBLIC",
        f"DROP TABLE {name}",
    )
    return [Step(make.sp(), table.owner, statements[: make.random.randint(2, len(statements))])]
