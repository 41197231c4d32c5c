"""The kinds of schema changes that bring code along: functions, triggers, rules, conditions."""

from tests.fuzz.changes.generator import Changes
from tests.fuzz.changes.steps import Step

STATES = ("", "ENABLE ", "ENABLE ALWAYS ", "ENABLE REPLICA ", "DISABLE ")
# Of triggers whose effect psp cannot let happen twice, or differently.
WRITING = (
    "INSERT INTO base.trail (what) VALUES (TG_OP)",
    "UPDATE base.counter SET n = n + 1",
    "NEW.b := clock_timestamp()::text",
    "NEW.a := coalesce(NEW.a, 0) + 1",
    "IF NEW.a = 4 THEN RETURN NULL; END IF",
    "IF NEW.a = 5 THEN RAISE 'five'; END IF",
)
# Of those whose effect is the server's own.
LOCAL = ("PERFORM pg_notify('heard', 'x')", "INSERT INTO base.aside VALUES (TG_OP)", "LISTEN heard")


def _sql(name: str, returns: str, body: str, language: str = "sql") -> str:
    return f"CREATE FUNCTION here.{name} RETURNS~{returns}~IMMUTABLE LANGUAGE {language} AS $f$ {body} $f$"


def check(make: Changes) -> list[Step]:
    """Of what the session has, of the clock, of functions."""
    table = make.table()
    condition = make.pick(
        "at::date = d",
        "at::text <> ''",
        "at < now() + interval '100 years'",
        "b::text <> current_setting('app.tenant', true)",
        "length(b) < 20000",
        "b::bytea IS NOT NULL",
        "a <> (1 = NULL)::int",
        "b <> '\\\\'",
        "to_char(at, 'TZ') = 'UTC'",
        "current_user <> 'psp_semi_primary'",
        "b < 'ß' COLLATE \"C\"",
    )
    name = make.pick("", f"CONSTRAINT {make.new_name().quoted} ")
    valid = make.pick("", "~NOT VALID")
    added = make.send(table, f"ALTER TABLE~{make.spell(table)}~ADD~{name}CHECK~({condition}){valid}")
    return [*added, *make.writes(), *make.writes()]


def domain_check(make: Changes) -> list[Step]:
    table, name = make.table(), f"here.day_{make.number()}"
    condition = make.pick(
        "VALUE::timestamptz::text <> ''",
        "VALUE < current_date + 9999",
        "to_char(VALUE::timestamptz, 'TZ') = 'UTC'",
    )
    return [
        *make.change(table.owner, f"CREATE~DOMAIN~{name} AS~date~CHECK ({condition})"),
        *make.send(table, f"ALTER TABLE {make.spell(table)} ALTER d TYPE {name}"),
        *make.writes(),
        *make.writes(),
    ]


def generated(make: Changes) -> list[Step]:
    """By a function that says it is immutable, and is not."""
    table, number = make.table(), make.number()
    body = make.pick(
        "x::timestamptz::text", "current_setting('timezone') || x", "to_char(x, 'TMMonth')", "x::date::text"
    )
    column = f"g_{number} text GENERATED ALWAYS AS (here.lies_{number}(at)) STORED"
    return [
        *make.change(table.owner, _sql(f"lies_{number}(x timestamptz)", "text", f"SELECT {body}")),
        *make.send(table, f"ALTER TABLE {make.spell(table)} ADD {column}"),
        *make.writes(),
    ]


def function(make: Changes) -> list[Step]:
    """One that calls others by bare names, or what is not there."""
    number = make.number()
    returns, body = make.random.choice(
        (
            ("int", f"SELECT x + {number}"),
            ("int", "SELECT bare(x)"),
            ("int", "SELECT count(*)::int FROM missing"),
            ("int", "SELECT length('C:\\\\')"),
            ("boolean", "SELECT '{NULL}'::int[] <> '{1}' AND x > 0"),
        )
    )
    quote = make.pick("$f$", "$q$", "$_1$", "'")
    if quote == "'":
        body = body.replace("'", "''")
    head = f"CREATE~{make.pick('', 'OR REPLACE ')}FUNCTION~here.f_{number}(x int DEFAULT 1)"
    return make.change(
        make.changer(), f"{head} RETURNS~{returns}~LANGUAGE sql IMMUTABLE AS~{quote}{body}{quote}"
    )


def expression_index(make: Changes) -> list[Step]:
    """Over an SQL function that calls another one by its bare name."""
    table, number = make.table(), make.number()
    call = f"here.outer_{number}(b)"
    made = make.pick(
        f"CREATE INDEX ON {make.spell(table)} ({call})",
        f"ALTER TABLE {make.spell(table)} ADD CHECK ({call} <> 'no')",
        f"CREATE UNIQUE INDEX ON {make.spell(table)} (here.outer_{number}(b || id))",
    )
    texts = (
        _sql(f"inner_{number}(text)", "text", "SELECT left($1, 9)"),
        _sql(f"outer_{number}(text)", "text", f"SELECT inner_{number}($1)"),
        made,
    )
    messages = tuple("SET search_path = here; " + text.replace("~", " ") for text in texts)
    return [Step(make.sp(), table.owner, messages), *make.writes(), *make.writes()]


def _trigger(make: Changes, body: str, states: tuple[str, ...]) -> list[Step]:
    table, number = make.table(), make.number()
    time, level = make.pick("BEFORE", "AFTER"), make.pick("ROW", "ROW", "STATEMENT")
    event = make.pick("INSERT", "INSERT OR UPDATE", "UPDATE OF b", "DELETE", "INSERT OR UPDATE OR DELETE")
    if "NEW" in body:
        time, level, event = "BEFORE", "ROW", "INSERT OR UPDATE"
    is_constraint = (time, level) == ("AFTER", "ROW") and make.chance(0.3)
    constraint = " CONSTRAINT" if is_constraint else ""
    deferred = "DEFERRABLE INITIALLY DEFERRED " if is_constraint else ""
    result = "CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END" if level == "ROW" else "NULL"
    code = (
        f"LANGUAGE plpgsql{make.pick('', ' SECURITY DEFINER')} AS $f$ BEGIN {body}; RETURN {result}; END $f$"
    )
    name, state = make.new_name().spelled(make.random), make.pick(*states)
    texts = [
        f"CREATE FUNCTION here.t_{number}() RETURNS trigger {code}",
        f"CREATE{constraint}~TRIGGER~{name}~{time} {event} ON~{make.spell(table)} {deferred}"
        f"FOR EACH {level} EXECUTE FUNCTION here.t_{number}()",
    ]
    if state:
        texts.append(f"ALTER~TABLE {make.spell(table)}~{state}TRIGGER~{name}")
    return [*make.change(table.owner, *texts), *make.writes(), *make.writes()]


def trigger(make: Changes) -> list[Step]:
    return _trigger(make, make.pick(*WRITING, *LOCAL), ("", "DISABLE "))


def applied_trigger(make: Changes) -> list[Step]:
    """One that would run where rows are applied."""
    return _trigger(make, make.pick(*WRITING, *LOCAL), STATES)


def _rule(make: Changes, states: tuple[str, ...]) -> list[Step]:
    table = make.table()
    name, event = make.new_name().spelled(make.random), make.pick("INSERT", "UPDATE", "DELETE")
    what = make.pick(
        "ALSO INSERT INTO base.trail (what) VALUES ('rule')", "INSTEAD NOTHING", "ALSO NOTIFY heard"
    )
    where = make.pick("", "WHERE NEW.a = 4 ") if event != "DELETE" else ""
    texts = [f"CREATE~RULE~{name} AS ON {event} TO~{make.spell(table)} {where}DO {what}"]
    if state := make.pick(*states):
        texts.append(f"ALTER TABLE {make.spell(table)} {state}RULE {name}")
    return [*make.change(table.owner, *texts), *make.writes(), *make.writes()]


def rule(make: Changes) -> list[Step]:
    return _rule(make, ("", "DISABLE "))


def applied_rule(make: Changes) -> list[Step]:
    return _rule(make, STATES)


def foreign_function(make: Changes) -> list[Step]:
    """A CHECK of one role over a function of another one, which revokes the right to it."""
    table, number = make.table(), make.number()
    signature, call = f"local_of_cid_{number}(int)", f"here.local_of_cid_{number}(a)"
    language, body = make.random.choice(
        (
            ("sql", "SELECT $1 IS DISTINCT FROM 77"),
            ("plpgsql", "BEGIN RETURN $1 IS DISTINCT FROM 77; END"),
        )
    )
    made = (
        _sql(signature, "boolean", body, language).replace("~", " "),
        f"ALTER FUNCTION here.{signature} OWNER TO cid",
    )
    revoke = f"REVOKE {make.pick('EXECUTE', 'ALL')} ON FUNCTION here.{signature} FROM PUBLIC"
    local = make.pick("", "SET psp.schema_changes = local; ")
    return [
        Step(make.sp(), "app", made),
        *make.writes(),
        Step(make.sp(), table.owner, (f"ALTER TABLE {table.sql} ADD CHECK ({call})",)),
        *make.writes(),
        Step(make.sp(), "cid", (local + revoke,)),
        *make.writes(),
        *make.writes(),
    ]
