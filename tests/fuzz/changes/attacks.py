"""What a role could try on purpose: texts that are read in two ways, and psp's own triggers and functions."""

from tests.fuzz.changes.generator import Changes
from tests.fuzz.changes.steps import Step, dollar_quoted

LITERALS = ("'C:\\\\dir'", "'a\\'", "'\\\\'", "'x\\''; --'", "E'a\\\\b'", '"a\\\\"', "$$\\\\$$", "U&'\\\\x'")


def strings(make: Changes) -> list[Step]:
    """PostgreSQL reads a message under the setting at its beginning."""
    table = make.table()
    role = table.owner
    literal = make.pick(*LITERALS)
    statement = make.pick(
        f"ALTER TABLE {make.spell(table)} ALTER b SET DEFAULT {literal}",
        f"COMMENT ON TABLE {make.spell(table)} IS {literal}",
        f"CREATE VIEW here.read_{make.number()} AS SELECT {literal}::text AS x",
    )
    first, second = make.random.sample(("on", "off"), 2)
    setting = "standard_conforming_strings"
    return [
        make.random.choice(
            (
                Step(make.sp(), role, (f"SET {setting} = {first}", f"SET {setting} = {second}; {statement}")),
                Step(make.sp(), role, (f"SET {setting} = {first}", f"RESET {setting}; {statement}")),
                Step(make.sp(), role, (f"SET {setting} = {first}; {statement}",)),
                Step(make.sp(), role, (f"SET {setting} = {first}", statement)),
                Step(
                    make.sp(),
                    role,
                    (f"SET {setting} = {first}", f"SELECT psp.ddl({dollar_quoted(statement)})"),
                ),
                Step(
                    make.sp(),
                    role,
                    ("BEGIN", f"SET LOCAL {setting} = {first}", f"SELECT 1; {statement}", "COMMIT"),
                ),
            )
        )
    ]


def capture_off(make: Changes) -> list[Step]:
    """Of the role's own table, and rows are written meanwhile."""
    table = make.table()
    state = make.pick("ENABLE REPLICA", "DISABLE", "ENABLE ALWAYS")
    name = make.pick(
        "psp_capture",
        "psp_capture_insert",
        "psp_capture_row",
        "psp_commit",
        "psp_refuse_replica",
        "ALL",
        "USER",
    )
    off = make.pick(
        f"ALTER TABLE {table.sql} {state} TRIGGER {name}",
        f"ALTER TRIGGER {name} ON {table.sql} RENAME TO other",
        f"DROP TRIGGER {name} ON {table.sql}",
    )
    write = make.pick(
        make.rows(table),
        f"TRUNCATE {table.sql}",
        f"INSERT INTO {table.sql} (id, b) VALUES (20, 'hidden')",
        f"UPDATE {table.sql} SET b = 'hidden'",
    )
    text = f"{off}; {write}"
    sent = make.pick(text, f"SELECT psp.ddl({dollar_quoted(text)})")
    return [
        *make.writes(),
        Step(make.sp(), table.owner, (sent,)),
        Step(make.sp(), table.owner, (off, write)),
        *make.writes(),
    ]


def capture_enabled(make: Changes) -> list[Step]:
    """What is enabled already."""
    table = make.table()
    name = make.pick("psp_capture", "psp_capture_insert", "psp_capture_row", "psp_refuse_replica")
    return make.change(table.owner, f"ALTER TABLE~{make.spell(table)}~ENABLE TRIGGER~{name}")


def moments(make: Changes) -> list[Step]:
    """What PostgreSQL computes when it reads a statement, or what is a value of the session."""
    table, number = make.table(), make.number()
    statement = make.pick(
        f"ALTER TABLE~{make.spell(table)}~ADD now_{number} timestamptz DEFAULT~'now'",
        f"ALTER TABLE {make.spell(table)} ADD CHECK (at < timestamptz 'tomorrow' + interval '10 years')",
        f"CREATE VIEW here.now_{number} AS SELECT~'now'::timestamptz AS at",
        f"GRANT~SELECT ON~{make.spell(table)} TO~SESSION_USER",
    )
    return [*make.change(table.owner, statement), *make.writes()]


def foreign_capture(make: Changes) -> list[Step]:
    """A trigger of the role's own that calls a function of psp, with numbers of others."""
    table, number = make.table(), make.random.randint(1, 9)
    suffix = make.pick("row", "insert", "update", "delete", "ended", "rekey")
    arguments = make.pick("", "'1'", f"'{make.random.randint(1, 9)}', 'd'", "'d', 'g', 'x'")
    when = make.pick("AFTER INSERT", "AFTER UPDATE", "BEFORE INSERT")
    name = make.pick("mine", "psp_capture_row", "zz")
    made = (
        f"CREATE TRIGGER {name} {when} ON {table.sql} FOR EACH ROW "
        f"EXECUTE FUNCTION psp.capture_{number}_{suffix}({arguments})"
    )
    check = f"ALTER TABLE {table.sql} ADD CHECK (a < 1000)"
    sent = make.pick(made, f"SELECT psp.ddl({dollar_quoted(f'{check}; {made}')})")
    return [Step(make.sp(), table.owner, (sent,)), *make.writes(), *make.writes()]
