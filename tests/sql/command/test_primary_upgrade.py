"""A primary's schema of an older psp: refused with what to do, and brought to this version by one command."""

import struct
from pathlib import Path

import psycopg
import pytest
from psp.cli import app
from psp.output import PspError
from psp.primary import database as primary
from typer.testing import CliRunner

from tests.sql.databases import Pair

VERSION_1 = Path(__file__).parent / "primary_schema_1.sql"


def make_version_1(pair: Pair) -> None:
    """The application's own database serves as the older primary's."""
    pair.run(VERSION_1.read_text())


def test_upgrade_leads_to_the_schema_of_today(pair: Pair) -> None:
    """Fails when sql/primary/install/schema.sql is changed without an upgrade and a new number."""
    make_version_1(pair)
    pair.run("INSERT INTO psp.semi_primaries (name) VALUES ('kept')")
    done = CliRunner().invoke(app, ["primary", "upgrade", pair.dsn])
    assert done.exit_code == 0, done.output
    assert f"from version 1 to {primary.schema_version()}" in done.output
    fresh = Pair(f"{pair.name}_primary", pair.server)
    assert pair.primary_dsn == fresh.dsn  # made by this
    assert pair.dump("--schema-only") == fresh.dump("--schema-only")
    with pair.connect() as connection:
        assert connection.execute("SELECT name, join_t FROM psp.semi_primaries").fetchall() == [
            ("kept", None)
        ]
        assert primary.read_cluster(connection).state == "empty"
    assert primary.upgrade_primary(pair.dsn) == primary.schema_version()


def test_schema_changes_from_before_version_7_have_made_versions(pair: Pair) -> None:
    """The next one takes the number after theirs, and makes the version after that."""
    make_version_1(pair)
    primary.upgrade_primary(pair.dsn)
    pair.run(
        "DROP VIEW psp.conflicts; DROP TABLE psp.loss_reports, psp.hand_over, psp.disk_space;"
        "DROP TABLE psp.table_versions, psp.emptied_tables, psp.catalog_versions, psp.losses;"
        "ALTER TABLE psp.tables DROP COLUMN form;"
        "DROP FUNCTION psp.sp_of, psp.xid_of, psp.synchronous_standbys, psp.request_generation,"
        " psp.data_directory;"
        "ALTER TABLE psp.cluster DROP COLUMN copies;"
        "ALTER TABLE psp.log_start DROP COLUMN clock_ms;"
        "ALTER TABLE psp.semi_primaries DROP COLUMN forgotten_xid, DROP COLUMN is_connected, "
        "DROP COLUMN seen_at;"
        "ALTER TABLE psp.tx_log DROP COLUMN lost_use, DROP COLUMN decided_ms;"
        "ALTER TABLE psp.tx_log ADD COLUMN decided_at timestamptz;"
        "INSERT INTO psp.tables VALUES (1, 'public', 't',"
        """ '[{"name": "a", "type": "character varying(10)", "encoding": "binary"},"""
        """ {"name": "b", "type": "numeric", "encoding": "binary"},"""
        """ {"name": "c", "type": "mood", "encoding": "text"},"""
        """ {"name": "d", "type": "gone", "encoding": "binary"}]',"""
        """ '[{"name": "b", "type": "numeric", "normalise": "numeric"},"""
        """ {"name": "c", "type": "mood", "normalise": "text"},"""
        """ {"name": "generated", "type": "integer", "normalise": "base"}]');"""
        "UPDATE psp.cluster SET schema_version = 6;"
        "INSERT INTO psp.data (table_id, key, global_t, sp_id, image)"
        " SELECT 0, record_send(ROW(change, statement_n)), 10 * change, 1, 'x'::bytea"
        "   FROM generate_series(1, 2) change, generate_series(1, 3 - change) statement_n"
        " UNION ALL SELECT 1, record_send(ROW(1, 1)), 30, 1, 'x'::bytea"
    )
    primary.upgrade_primary(pair.dsn)
    with pair.connect() as connection:
        versions = connection.execute(
            "SELECT version, global_t FROM psp.catalog_versions ORDER BY 1"
        ).fetchall()
        assert versions == [(2, 10), (3, 20)]
        assert connection.execute("SELECT catalog_version FROM psp.cluster").fetchall() == [(3,)]
        columns = struct.pack(">h", 4) + b"".join(
            struct.pack(">iib", type_, -1, 0) for type_ in (1043, 1700, 25, 0)
        )
        key = struct.pack(">h", 3) + b"".join(
            struct.pack(">iib", *part) for part in ((1700, 1, 1), (25, 2, 3), (23, -1, 4))
        )
        assert connection.execute("SELECT form FROM psp.tables").fetchall() == [(columns + key,)]


def test_another_version_is_refused_with_what_to_do(pair: Pair) -> None:
    make_version_1(pair)
    with pair.connect() as connection:
        with pytest.raises(PspError, match="has version 1") as refused:
            primary.read_cluster(connection)
        assert "psp primary upgrade" in str(refused.value.hint)
    pair.run("UPDATE psp.cluster SET schema_version = 99")
    with pytest.raises(PspError, match="has version 99") as newer:
        primary.upgrade_primary(pair.dsn)
    assert "upgrade" not in str(newer.value.hint)


def test_no_upgrade_under_a_running_daemon(pair: Pair) -> None:
    make_version_1(pair)
    with psycopg.connect(pair.dsn, autocommit=True) as daemon:
        daemon.execute("SELECT pg_advisory_lock(%s, %s)", primary.daemon_lock())
        with pytest.raises(PspError, match="psp-primary is serving"):
            primary.upgrade_primary(pair.dsn)
    with pair.connect() as connection:
        assert connection.execute("SELECT schema_version FROM psp.cluster").fetchall() == [(1,)]
