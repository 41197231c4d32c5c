"""Runs Prisma's migrations as `prisma migrate deploy` does: each file is one message of the simple protocol.

(The program itself is no package: its engine is fetched from elsewhere when it is first used.)
"""

import hashlib
import sys
from pathlib import Path

import psycopg

NOTES = """
CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id varchar(36) PRIMARY KEY NOT NULL,
    checksum varchar(64) NOT NULL,
    finished_at timestamptz,
    migration_name varchar(255) NOT NULL,
    logs text,
    rolled_back_at timestamptz,
    started_at timestamptz NOT NULL DEFAULT now(),
    applied_steps_count integer NOT NULL DEFAULT 0
)
"""


def deploy(connection: psycopg.Connection[tuple[object, ...]], folder: Path) -> None:
    connection.execute(NOTES)
    rows = connection.execute("SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL")
    done = {name for (name,) in rows}
    for file in sorted(folder.glob("*/migration.sql")):
        if file.parent.name in done:
            continue
        text = file.read_text()
        started = connection.execute(
            "INSERT INTO _prisma_migrations (id, checksum, migration_name) "
            "VALUES (gen_random_uuid(), %s, %s) RETURNING id",
            [hashlib.sha256(text.encode()).hexdigest(), file.parent.name],
        ).fetchone()
        assert started is not None
        connection.execute(text.encode())
        connection.execute(
            "UPDATE _prisma_migrations SET finished_at = now(), applied_steps_count = 1 WHERE id = %s",
            started,
        )


if __name__ == "__main__":
    with psycopg.connect(autocommit=True) as server:
        deploy(server, Path(sys.argv[1]))
