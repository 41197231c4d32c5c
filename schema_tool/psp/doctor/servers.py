"""Rules about each server by itself. Pure functions: a test of each shows it both ways."""

from __future__ import annotations

from collections.abc import Iterator

from psp.doctor.facts import Facts, Health
from psp.problems import Problem, Severity
from psp.schema.server import too_new
from psp.sql_files import constant

MIB = 2**20
GIB = 2**30
LONG_TRANSACTION_S = 900
LONG_PREPARED_S = 60
CLOCKS_APART_S = 2.0
SLOT_BYTES = GIB
XIDS_LOOK = 1_000_000_000  # PostgreSQL refuses writes at about 2.1 billion
XIDS_WRONG = 1_600_000_000
COMMIT_TIMEOUT_MS = 10_000  # of psp-semi-primary, unless its configuration says otherwise
LOOPBACK = {"", "localhost", "127.0.0.1", "::1"}


def answers(facts: Facts) -> Iterator[Problem]:
    """Every server that was named can be looked at."""
    for server in facts.servers:
        if server.trouble is not None:
            yield Problem("error", server.name, server.trouble, server.remedy)
        if server.health is not None and not server.health.superuser:
            yield Problem(
                "note",
                server.name,
                "looked at as no superuser: pg_hba.conf, schemas and perhaps sessions are not seen",
                "name a superuser in its connection string",
            )


def versions(facts: Facts) -> Iterator[Problem]:
    """PostgreSQL's, and those of psp's own tables."""
    for server in facts.servers:
        if server.health is None:
            continue
        if (problem := too_new(server.health.version_num)) is not None:
            yield Problem("error", server.name, problem.problem, problem.hint)
        is_primary = server.health.kind == "primary"
        wanted = constant("PRIMARY_SCHEMA_VERSION" if is_primary else "SEMI_PRIMARY_SCHEMA_VERSION")
        if server.schema_version not in (None, wanted):
            yield Problem(
                "error",
                server.name,
                f"schema psp has version {server.schema_version}, this psp looks at {wanted} only",
                "stop psp-primary, then: psp primary upgrade DSN"
                if is_primary
                else "psp schema release, then psp schema join; or use the psp that has made it",
            )
    majors = sorted({health.version_num // 10000 for _, health in facts.healths})
    if len(majors) > 1:
        yield Problem(
            "note",
            "all servers",
            f"their versions of PostgreSQL are {', '.join(map(str, majors))}",
            "a schema must be one that the oldest semi-primary understands",
        )


def modules(facts: Facts) -> Iterator[Problem]:
    """SQL does the same work for more processor time."""
    for server, _, member in facts.members:
        if member.mode == "native" and member.capture == "sql":
            yield Problem(
                "note",
                server.name,
                "rows are captured by SQL, not by the module psp_capture",
                "docs/capture.md tells what it costs; psp schema capture changes it",
            )
    for server, _, primary in facts.primaries:
        if primary.status["certified_by"] == "sql":
            yield Problem(
                "note",
                server.name,
                "batches are certified by SQL, not by the module psp_certify",
                "install the module, then psp primary upgrade",
            )


def clocks(facts: Facts) -> Iterator[Problem]:
    """Nothing of psp's promises relies on clocks; times in logs and in psp primary status do."""
    known = [(server.clock, server.name) for server in facts.servers if server.clock is not None]
    if len(known) < 2:
        return
    known.sort(key=lambda pair: pair[0].ahead_s)
    (slow, slow_name), (fast, fast_name) = known[0], known[-1]
    apart = fast.ahead_s - slow.ahead_s
    if apart - slow.error_s - fast.error_s > CLOCKS_APART_S:
        yield Problem(
            "warning",
            fast_name,
            f"its clock is {apart:.1f} s ahead of that of {slow_name}",
            "let NTP or the like set the clocks of all servers",
        )


def transactions(facts: Facts) -> Iterator[Problem]:
    """Old snapshots keep versions of rows, and of the watermark, that each COMMIT reads past."""
    for name, health in facts.healths:
        for found in health.transactions:
            if found["seconds"] >= LONG_TRANSACTION_S:
                yield Problem(
                    "warning",
                    name,
                    f"role {found['role']} is in a transaction for {found['seconds']} s (pid {found['pid']})",
                    f"SELECT pg_terminate_backend({found['pid']}); dump and report where few clients write",
                )


def prepared_transactions(facts: Facts) -> Iterator[Problem]:
    """They may keep rows of other servers away, and nobody's session ends them."""
    for name, health in facts.healths:
        for found in health.prepared:
            if found["seconds"] >= LONG_PREPARED_S:
                yield Problem(
                    "error" if health.kind == "semi-primary" else "warning",
                    name,
                    f"'{found['gid']}' of {found['role']} is prepared for {found['seconds']} s",
                    "COMMIT PREPARED or ROLLBACK PREPARED, as its owner or a superuser",
                )
        if health.kind == "semi-primary" and health.settings.get("max_prepared_transactions") != "0":
            yield Problem(
                "note",
                name,
                "max_prepared_transactions is not 0: prepared transactions can keep others' rows away",
                "set it to 0 if nobody prepares transactions here",
            )


def vacuum(facts: Facts) -> Iterator[Problem]:
    """Autovacuum works, and transaction ids do not come near their end."""
    for name, health in facts.healths:
        for setting in ("autovacuum", "track_counts"):
            if health.settings.get(setting) == "off":
                yield Problem(
                    "error", name, f"{setting} is off", f"ALTER SYSTEM SET {setting} = on, and reload"
                )
        for table in health.without_autovacuum:
            yield Problem(
                "warning",
                name,
                f"autovacuum is off for table {table}",
                "ALTER TABLE … RESET (autovacuum_enabled)",
            )
        for found in health.databases:
            for what, age in (("transaction ids", found["xids"]), ("multixacts", found["multixacts"])):
                if age >= XIDS_LOOK:
                    severity: Severity = "error" if age >= XIDS_WRONG else "warning"
                    yield Problem(
                        severity,
                        f"{name}, database {found['name']}",
                        f"its oldest {what} are {age:,} back; writes stop at about 2.1 billion",
                        "end old transactions and unused slots, then VACUUM FREEZE",
                    )


def disk(facts: Facts) -> Iterator[Problem]:
    """What keeps WAL, and what SQL cannot know."""
    told = {s.name for s, _, p in facts.primaries if p.status["disk_free_bytes"] is not None}
    for name, health in facts.healths:
        for slot in health.slots:
            kept = slot["bytes"] or 0
            if not slot["active"] and kept >= SLOT_BYTES:
                yield Problem(
                    "warning",
                    name,
                    f"replication slot {slot['name']}, which nobody uses, keeps {kept / GIB:,.1f} GiB of WAL",
                    "bring its reader back, or SELECT pg_drop_replication_slot(…)",
                )
        if health.kind is not None and name not in told:
            size = f"the database has {health.database_bytes / MIB:,.0f} MiB; SQL cannot see the free space"
            yield Problem("note", name, size, "watch the disks of data and WAL by other means")


def durability(facts: Facts) -> Iterator[Problem]:
    """PostgreSQL itself keeps what it says."""
    for name, health in facts.healths:
        for setting in ("fsync", "full_page_writes"):
            if health.settings.get(setting) == "off":
                severity: Severity = "error" if health.kind == "primary" else "warning"
                yield Problem(
                    severity,
                    name,
                    f"{setting} is off: a crash of the machine may destroy the database",
                    f"ALTER SYSTEM SET {setting} = on, and reload",
                )
        if health.kind == "semi-primary" and health.settings.get("synchronous_commit") != "off":
            yield Problem(
                "note",
                name,
                "synchronous_commit is not off: each COMMIT waits for this disk, too",
                "off is enough: the primary has the data",
            )


def backup(facts: Facts) -> Iterator[Problem]:
    """The primary's is the only one that is needed."""
    for name, health in facts.healths:
        if health.archiving_fails:
            yield Problem(
                "error" if health.kind == "primary" else "warning",
                name,
                "the last attempt to archive WAL has failed: it stays on the disk",
                "see pg_stat_archiver and the server's log",
            )
        if health.kind == "primary" and health.settings.get("archive_mode") == "off":
            yield Problem(
                "note",
                name,
                "archive_mode is off; SQL cannot know whether backups are made by other means",
                "back up this server",
            )


def timeouts(facts: Facts) -> Iterator[Problem]:
    """psp's daemons switch timeouts off in their own sessions; applications' COMMITs have them."""
    for name, health in facts.healths:
        if health.kind == "semi-primary":
            yield from _short_timeouts(name, health)
        if health.kind == "primary" and health.settings.get("wal_sender_timeout") == "0":
            yield Problem(
                "warning",
                name,
                "wal_sender_timeout is 0: a standby that has vanished is not noticed",
                "set it to 60 s, the default",
            )


def _short_timeouts(name: str, health: Health) -> Iterator[Problem]:
    for setting in ("statement_timeout", "transaction_timeout"):
        value = int(health.settings.get(setting, "0"))
        if 0 < value < COMMIT_TIMEOUT_MS:
            yield Problem(
                "warning",
                name,
                f"{setting} is {value} ms: it can end the wait of a COMMIT for the primary, with 08007",
                "more than commit_timeout_ms of psp-semi-primary (10000 unless set), or 0",
            )
    for found in health.overrides:
        if "_timeout=" in found and not found.endswith("=0"):
            yield Problem(
                "note",
                name,
                f"a timeout is set for {found}",
                "it includes the wait of COMMIT for the primary",
            )


def isolation(facts: Facts) -> Iterator[Problem]:
    """SERIALIZABLE transactions that write are refused."""
    for name, health in facts.healths:
        if health.kind != "semi-primary":
            continue
        by_default = health.settings.get("default_transaction_isolation") == "serializable"
        places = ["default_transaction_isolation=serializable"] if by_default else []
        for place in [
            *places,
            *(found for found in health.overrides if found.endswith("isolation=serializable")),
        ]:
            yield Problem(
                "error",
                name,
                f"{place}: every transaction that writes is refused",
                "set it to repeatable read",
            )


def encryption(facts: Facts) -> Iterator[Problem]:
    """Of what crosses a network, as far as a server knows."""
    for server in facts.servers:
        for line in server.open_doors:
            yield Problem(
                "error",
                server.name,
                f"pg_hba.conf, {line}",
                "ask for scram-sha-256 or a certificate, in hostssl lines",
            )
    for name, health in facts.healths:
        addresses = {a.strip() for a in health.settings.get("listen_addresses", "").split(",")}
        if health.settings.get("ssl") == "off" and not addresses <= LOOPBACK:
            yield Problem(
                "warning",
                name,
                "it listens to other machines, and ssl is off",
                "give it a certificate, and set ssl = on",
            )
        if health.kind == "primary":
            yield Problem(
                "note",
                name,
                "SQL cannot see whether the daemons have key_file",
                "psp-primary warns in its log at its start if it has none",
            )
    for server, _, member in facts.members:
        if member.hook_tls == "require":
            yield Problem(
                "warning",
                server.name,
                "COMMITs go to a daemon on another host without a check of its certificate",
                "set hook_root_certificate to a file or to system",
            )


def search_paths(facts: Facts) -> Iterator[Problem]:
    """Expressions of tables run under their owner's search_path."""
    for name, health in facts.healths:
        for schema in health.open_schemas:
            yield Problem(
                "warning",
                name,
                f"everybody may create objects in schema {schema}: names in it may be taken for others",
                f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC",
            )
