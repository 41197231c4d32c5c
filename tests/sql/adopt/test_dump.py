"""The schema that an adopted database stores for those that join."""

from __future__ import annotations

from psp.schema.dump import portable


def test_a_stored_schema_has_nothing_that_only_newer_servers_know() -> None:
    body = "CREATE FUNCTION f() AS 'SET transaction_timeout = 0;\n\\restrict stays';\n"
    dumped = (
        "\\restrict key\nSET idle_in_transaction_session_timeout = 0;\nSET transaction_timeout = 0;\n"
        + body
        + "\\unrestrict key\n"
    )
    assert portable(dumped) == "SET idle_in_transaction_session_timeout = 0;\n" + body


def test_a_stored_schema_has_no_numbers_of_columns() -> None:
    """An older minor version of pg_dump prints those that newer servers give."""
    column = "ALTER TABLE ONLY public.t ALTER COLUMN"
    dumped = (
        f"{column} a SET (pg_attver=26506304);\n"
        f"{column} b SET (pg_attver=1, n_distinct=5);\n"
        f"{column} c SET (n_distinct=5);\n"
    )
    assert portable(dumped) == f"{column} b SET (n_distinct=5);\n{column} c SET (n_distinct=5);\n"
