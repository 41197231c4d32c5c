#!/usr/bin/env python3
"""The consistency conditions of TPC-C (clause 3.3.2) on a database: check.py DSN [--json].

Exit code 0: all hold; 1: some do not; 2: they could not be asked.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
from psycopg.rows import class_row

SQL_FILE = Path(__file__).with_name("check.sql")


@dataclass(frozen=True)
class Condition:
    """One condition: its number in the specification, what must hold, how many rows violate it."""

    condition: int
    description: str
    violations: int

    @property
    def holds(self) -> bool:
        """Whether nothing violates it."""
        return self.violations == 0


def check(dsn: str) -> list[Condition]:
    """Asks the database, in one snapshot. Raises psycopg.Error if it cannot be asked."""
    with (
        psycopg.connect(dsn, application_name="tpcc check") as connection,
        connection.cursor(row_factory=class_row(Condition)) as cursor,
    ):
        cursor.execute(SQL_FILE.read_bytes())
        return cursor.fetchall()


def all_hold(dsn: str) -> bool:
    """Whether every condition holds."""
    return all(condition.holds for condition in check(dsn))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Checks TPC-C's consistency conditions (clause 3.3.2).")
    parser.add_argument("dsn", help="libpq connection string or URL")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        conditions = check(options.dsn)
    except psycopg.Error as error:
        print(f"check.py: {error}".rstrip(), file=sys.stderr)
        return 2
    holds = all(condition.holds for condition in conditions)
    if options.json:
        found = [{**asdict(condition), "holds": condition.holds} for condition in conditions]
        print(json.dumps({"conditions_hold": holds, "conditions": found}, indent=2))
    else:
        for c in conditions:
            verdict = "ok " if c.holds else "BAD"
            count = "" if c.holds else f"  ({c.violations} violations)"
            print(f"{verdict} {c.condition:2}  {c.description}{count}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
