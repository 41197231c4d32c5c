"""What could stop a coming schema change at one SP: what the servers do not have alike, and no stream brings.

Roles, tablespaces and extensions belong to a server. Objects are local where a role made them that may not
call psp.ddl, or under SET psp.schema_changes = local.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from psp.cluster import schemas
from psp.problems import Problem, Severity, sort
from psp.schema.generate import TEXT_SETTINGS
from psp.sql_files import read_sql

Things = dict[tuple[str, str], str]
"""(kind, name) -> definition."""

_CHANGER = "changer"  # of roles that may call psp.ddl
_EXTENSION = "extension"
_VERSION = ("version of", "PostgreSQL")
_DATABASE_RIGHTS = ("rights on", "the database")
_LOCAL = "a schema change of that name stops somewhere: make it as a role that may call psp.ddl, or drop it"


@dataclass(frozen=True)
class Server:
    """What one server has. `objects`: None if its database is not under psp.

    `guarded`: whether psp has event triggers there, without which there are no schema changes; None as above.
    """

    surroundings: Things
    objects: Things | None
    schema: schemas.Schema | None
    guarded: bool | None = None
    joining: bool = False


def read_server(connection: psycopg.Connection[Any], is_sp: bool) -> Server:
    """In the connection's transaction, as a superuser."""
    connection.execute(TEXT_SETTINGS.encode())
    connection.execute("SET LOCAL quote_all_identifiers = off")
    guarded, joining = _identity(connection) if is_sp else (None, False)
    return Server(
        _read(connection, "catalog/surroundings.sql"),
        _read(connection, "semi_primary/command/local_objects.sql") if is_sp else None,
        schemas.read_schema(connection) if is_sp else None,
        guarded,
        joining,
    )


def _identity(connection: psycopg.Connection[Any]) -> tuple[bool, bool]:
    """Whether it has the guard, and whether it joins."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT guarded, joining FROM psp.identity").fetchone()
    assert row is not None
    return row[0], row[1]


def _read(connection: psycopg.Connection[Any], file: str) -> Things:
    with connection.cursor(row_factory=tuple_row) as cursor:
        return {
            (kind, name): schemas.normalised(definition)
            for kind, name, definition in cursor.execute(read_sql(file))
        }


def compare(servers: Mapping[str, Server]) -> list[Problem]:
    """What is not the same at all of them, by the servers' names; errors first."""
    found = [
        *_unguarded(servers),
        *_surroundings(
            {name: _settled(server.surroundings, servers.values()) for name, server in servers.items()}
        ),
    ]
    objects = {name: server for name, server in servers.items() if server.objects is not None}
    told = {problem.object for problem in differing_schemas(servers)}
    return sort([*found, *(problem for problem in _objects(objects) if problem.object not in told)])


def _settled(surroundings: Things, servers: Iterable[Server]) -> Things:
    """Without the database's rights while one joins: it keeps clients out."""
    if not any(server.joining for server in servers):
        return surroundings
    return {key: definition for key, definition in surroundings.items() if key != _DATABASE_RIGHTS}


def _unguarded(servers: Mapping[str, Server]) -> Iterator[Problem]:
    """Servers that a schema change of the others stops."""
    unguarded = [name for name, server in servers.items() if server.guarded is False]
    if unguarded and any(server.guarded for server in servers.values()):
        yield Problem(
            "error", "schema changes",
            f"any of them stops {_listed(unguarded)} for good: no superuser, no event triggers",
            "release these and join again as superusers, or make no schema change anywhere",
        )  # fmt: skip


def differing_schemas(servers: Mapping[str, Server]) -> list[Problem]:
    """What psp keeps the same, and is not."""
    known = {name: server.schema for name, server in servers.items() if server.schema is not None}
    return [
        Problem(
            "error", f"{d.kind} {d.name}", _which(d.definitions), "psp primary verify tells how they differ"
        )
        for d in schemas.compare(known)
    ]


def _surroundings(servers: Mapping[str, Things]) -> Iterator[Problem]:
    differences = schemas.compare(servers)
    yield from _collations([difference for difference in differences if difference.kind == "collation"])
    for difference in differences:
        kind, name = difference.kind, difference.name
        where = _which(difference.definitions)
        detailed = f"{where}: {_definitions(difference)}"
        missing = _listed([server for server, found in difference.definitions.items() if found is None])
        installed = any((_EXTENSION, name) in things for things in servers.values())
        match kind:
            case "role" if missing and any((_CHANGER, name) in things for things in servers.values()):
                hint = f"CREATE ROLE at {missing}: a schema change of this role stops there"
                yield Problem("error", f"role {name}", where, hint)
            case "role" if missing:
                hint = f"CREATE ROLE at {missing}: a schema change that names it stops there"
                yield Problem("warning", f"role {name}", where, hint)
            case "role":
                hint = "GRANT or ALTER ROLE: a statement may be allowed at one server only"
                yield Problem("warning", f"role {name}", detailed, hint)
            case "tablespace":
                hint = f"CREATE TABLESPACE at {missing}: a schema change that names it stops there"
                yield Problem("warning", f"tablespace {name}", where, hint)
            case "extension":
                hint = "CREATE, ALTER or DROP EXTENSION at each server as a superuser"
                if not missing:
                    hint += "; where the owner differs, a schema change by its owner stops: join again there"
                yield Problem("warning", f"extension {name}", detailed, hint)
            case "available extension":
                severity: Severity = "warning" if installed else "note"
                problem = f"it can be made, but not at {missing}"
                yield Problem(severity, f"package of extension {name}", problem, "install it at all servers")
            case "version of" | "locale of":
                hint = "use the same everywhere: a statement may work at one server only"
                yield Problem("warning", f"{kind} {name}", detailed, hint)
            case "rights on":
                hint = "GRANT, REVOKE or ALTER DATABASE … OWNER TO at each server: what one refuses stops it"
                yield Problem("warning", f"{kind} {name}", detailed, hint)
            case "settings of":
                hint = "ALTER DATABASE or ALTER ROLE at each server"
                yield Problem("note", f"{kind} {name}", where, hint)


def _collations(differences: list[schemas.Difference]) -> Iterator[Problem]:
    """One note for all that the same servers have: an ICU of another version has hundreds of others."""
    names: dict[str, list[str]] = {}
    for difference in differences:
        names.setdefault(_which(difference.definitions), []).append(difference.name)
    for where, (first, *others) in names.items():
        what = f"collation {first}" + (f" and {len(others)} others" if others else "")
        yield Problem("note", what, where, "use collations that all servers have")


def _objects(servers: Mapping[str, Server]) -> Iterator[Problem]:
    found = {name: server.objects for name, server in servers.items() if server.objects is not None}
    versions = {name: server.surroundings.get(_VERSION) for name, server in servers.items()}
    for difference in schemas.compare(found):
        is_missing = None in difference.definitions.values()
        if is_missing and difference.kind == "rights on":
            continue  # told of the object
        if not is_missing and not _differs_within_a_version(difference, versions):
            continue
        hint = _LOCAL if is_missing else "change it by a role that may call psp.ddl"
        yield Problem("warning", f"{difference.kind} {difference.name}", _which(difference.definitions), hint)


def _differs_within_a_version(difference: schemas.Difference, versions: Mapping[str, str | None]) -> bool:
    """PostgreSQL writes views, among others, as text that is not the same in each version."""
    found = {(versions[name], text) for name, text in difference.definitions.items()}
    return len(found) > len({version for version, _ in found})


def _which(definitions: Mapping[str, str | None]) -> str:
    """At which servers something is, or that it differs."""
    missing = [name for name, found in definitions.items() if found is None]
    if not missing:
        return "it is not the same everywhere"
    return f"it is only at {_listed([name for name in definitions if name not in missing])}"


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _definitions(difference: schemas.Difference) -> str:
    shown = zip(difference.definitions, difference.shown(), strict=True)
    return "; ".join(f"{name}: {'-' if text is None else text or 'none of it'}" for name, text in shown)
