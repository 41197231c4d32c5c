"""What a role that is no superuser lacks, and what psp does without."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import class_row

from psp.problems import Problem
from psp.schema.server import refuse_unfit
from psp.sql_files import read_sql


def missing_rights(connection: psycopg.Connection[Any]) -> list[Problem]:
    """Each with the GRANT that mends it. Nothing is missing to a superuser. UnfitError as read_facts."""
    refuse_unfit(connection)
    with connection.cursor(row_factory=class_row(Problem)) as cursor:
        return cursor.execute(read_sql("catalog/rights.sql")).fetchall()
