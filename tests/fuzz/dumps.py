"""Whether all servers have the same schema: what pg_dump says of each object is compared."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psp.schema.dump import dump_schema

_ENTRY = re.compile(r"^-- Name: (.*); Type: ([A-Z ]+); Schema: (.*); Owner: .*$", re.MULTILINE)
# Each server draws its own numbers of a sequence.
_OWN_NUMBERS = re.compile(r"(START WITH|INCREMENT BY|MINVALUE|MAXVALUE|CACHE) -?\d+|NO (MINVALUE|MAXVALUE)")
# psp's own, and what is local by its name.
_IS_NOT_COMPARED = re.compile(r"local_|[ .](psp|PSP)_|SCHEMA -\.psp$| psp\.| -\.(EXTENSION )?dblink")
_BETWEEN = ("--", "SET default_")  # what pg_dump writes between objects, whose order may differ
_SHOWN = 8

Entries = dict[tuple[str, str, str], str]
"""(type, schema, name) -> definition."""


def differing_dumps(dsns: Mapping[str, str]) -> str:
    """The objects that are not the same everywhere; empty: none. `dsns`: a superuser's, by server."""
    with ThreadPoolExecutor() as pool:
        found = dict(zip(dsns, pool.map(_entries, dsns.values()), strict=True))
    lines = []
    for key in sorted(set().union(*found.values())):
        definitions = {name: entries.get(key) for name, entries in found.items()}
        if len(set(definitions.values())) > 1:
            lines.append(
                "\n".join((" ".join(key), *(f"  {name}: {text}" for name, text in definitions.items())))
            )
    return "\n".join(lines[:_SHOWN])


def _entries(dsn: str) -> Entries:
    """What the application's roles have made for all servers."""
    with psycopg.connect(dsn) as connection:
        parts = _ENTRY.split(dump_schema(connection, dsn))[1:]
    found: Entries = {}
    for name, kind, schema, text in zip(*(parts[n::4] for n in range(4)), strict=True):
        if _IS_NOT_COMPARED.search(f"{kind} {schema}.{name}"):
            continue
        lines = [line for line in text.splitlines() if line and not line.startswith(_BETWEEN)]
        shown = _OWN_NUMBERS.sub("", "\n".join(lines)) if kind in ("SEQUENCE", "TABLE") else "\n".join(lines)
        found[kind, schema, name] = found.get((kind, schema, name), "") + shown
    return found
