"""Rules about the cluster as a whole. Pure functions: a test of each shows it both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from psp.cluster import obstacles
from psp.doctor.facts import Facts, Health, Member, Primary
from psp.primary.members import standstill_text
from psp.problems import Problem, Severity

GIB = 2**30
LOG_BYTES = GIB
FREE_BYTES = GIB
FREE_SHARE = 0.1
LAG_MS = 30_000.0
_WAITING_S = 2.0
_BY_ITSELF = ("joining", "catchup", "retrying", "paused")
_SYNCHRONOUS = ("sync", "quorum")


def daemon_of_primary(facts: Facts) -> Iterator[Problem]:
    """psp-primary runs and can decide."""
    for server, _, primary in facts.primaries:
        status = primary.status
        if status["hands_over"]:
            yield Problem(
                "error",
                server.name,
                "it hands over, or has handed over, to its standby: psp-primary decides nothing here",
                "name the standby in place of this server if it was promoted; if not: psp primary switchover "
                "again, or with --withdraw",
            )
        elif not status["is_served"]:
            yield Problem(
                "error",
                server.name,
                "psp-primary does not run: nobody can commit",
                "start it; its log tells why it has ended",
            )
        if (cause := status["standstill"]) is not None:
            yield Problem(
                "error",
                server.name,
                f"for {status['standstill_s']} s nothing could be decided: {standstill_text(cause)}",
                "the page has a remedy for each cause",
            )


def replication(facts: Facts) -> Iterator[Problem]:
    """What is reported as committed is on two disks, and a standby really has it."""
    for server, health, primary in facts.primaries:
        name, status = server.name, primary.status
        listed = status["synchronous_standby_names"] != ""
        there = status["synchronous_standbys"]
        needed = max(status["copies"], 1 if listed else 0)
        if not needed:
            yield _not_synchronous(name, health)
        elif there < needed:
            yield Problem(
                "error",
                name,
                f"{there} of {needed} synchronous standbys are connected: COMMITs wait",
                "bring the standby back; pg_stat_replication lists those that are there",
            )
        if listed and not status["copies"]:
            yield Problem(
                "warning",
                name,
                "nothing keeps the standby required after a restart with another list, or after a failover",
                "psp primary copies DSN 1",
            )
        if (waited := status["waits_for_standbys_s"]) is not None and waited >= _WAITING_S:
            yield Problem(
                "error",
                name,
                f"COMMITs have waited for a standby for {waited:.1f} s",
                "look at pg_stat_replication",
            )
        role = health.roles.get("psp_primary")
        if needed and role is not None and not (role["superuser"] or role["pg_read_all_stats"]):
            yield Problem(
                "error",
                name,
                "psp_primary may not see the standbys, so none counts",
                "GRANT pg_read_all_stats TO psp_primary",
            )


def _not_synchronous(name: str, health: Health) -> Problem:
    standbys = [sender["name"] for sender in health.senders if sender["sync_state"] not in _SYNCHRONOUS]
    if standbys:
        return Problem(
            "error",
            name,
            f"its standbys ({', '.join(standbys)}) are asynchronous: a promotion loses reported COMMITs",
            "name them in synchronous_standby_names, then psp primary copies DSN 1",
        )
    return Problem(
        "warning",
        name,
        "it has no synchronous standby: what was committed is on one disk only",
        "set up a standby, name it in synchronous_standby_names, then psp primary copies DSN 1",
    )


def log(facts: Facts) -> Iterator[Problem]:
    """The log does not grow without end."""
    for server, _, primary in facts.primaries:
        size = primary.status["log_bytes"]
        if size >= LOG_BYTES:
            yield Problem(
                "warning",
                server.name,
                f"the log has {size / GIB:,.1f} GiB, kept for those that are behind",
                "bring them back, or psp primary remove those whose servers are lost",
            )


def disk(facts: Facts) -> Iterator[Problem]:
    """The primary's disk has room for the log and the WAL. Nobody can write when it is full."""
    for server, _, primary in facts.primaries:
        free, size = primary.status["disk_free_bytes"], primary.status["disk_bytes"]
        if free is None:
            text = "psp-primary does not tell the free space of its disk"
            yield Problem(
                "note", server.name, text, "watch it by other means; it tells where it runs at this server"
            )
        elif free < max(FREE_BYTES, FREE_SHARE * size):
            severity: Severity = "error" if free < FREE_BYTES else "warning"
            text = f"{free / GIB:,.1f} of {size / GIB:,.1f} GiB are free on its disk"
            yield Problem(severity, server.name, text, "enlarge it, or find what grows: the log, WAL, tables")


def away(facts: Facts) -> Iterator[Problem]:
    """Every semi-primary of the cluster is connected, and was looked at."""
    named = {member.name for _, _, member in facts.members}
    for _, _, primary in facts.primaries:
        for found in primary.status["semi_primaries"]:
            name = found["name"]
            if found["is_connected"] is False:
                kept = (
                    f", and keeps {found['keeps_bytes'] / 2**20:,.1f} MiB of the log"
                    if found["keeps_bytes"]
                    else ""
                )
                yield Problem(
                    "error",
                    name,
                    f"the primary does not hear it (last heard: {_time(found['seen_at'])}){kept}",
                    "start its daemon, or psp primary remove if its server is lost",
                )
            if name not in named:
                yield Problem("note", name, "it belongs to the cluster and was not looked at", "name it, too")
    if facts.servers and not facts.primaries:
        yield Problem(
            "warning", "the cluster", "no primary was looked at", "name the primary's database, too"
        )


def _time(seen_at: object) -> str:
    return "never" if seen_at is None else f"{seen_at:%Y-%m-%d %H:%M:%S}"


def streams(facts: Facts) -> Iterator[Problem]:
    """Each semi-primary's daemon says that all is well."""
    for server, _, member in facts.members:
        why = f": {member.last_error}" if member.last_error else ""
        if member.state != "streaming":
            severity: Severity = "warning" if member.state in _BY_ITSELF else "error"
            yield Problem(
                severity,
                server.name,
                f"its state is {member.state}{why}",
                "psp.status; the page tells what each state means",
            )
        elif why:
            yield Problem("warning", server.name, f"its last error{why}", "psp.status")
        if member.lag_ms is not None and member.lag_ms >= LAG_MS:
            yield Problem(
                "warning",
                server.name,
                f"it is {member.lag_ms / 1000:,.0f} s behind ({member.lag_transactions} transactions)",
                "its PostgreSQL applies more slowly than the others write",
            )


def agreement(facts: Facts) -> Iterator[Problem]:
    """All of them belong to one cluster and know the same of it."""
    questions: tuple[tuple[str, Callable[[Member], object], Callable[[Primary], object]], ...] = (
        ("cluster", lambda m: m.cluster_id, lambda p: p.cluster_id),
        ("mode", lambda m: m.mode, lambda p: p.status["mode"]),
    )
    for what, of_member, of_primary in questions:
        values = {server.name: of_member(member) for server, _, member in facts.members}
        values |= {server.name: of_primary(primary) for server, _, primary in facts.primaries}
        if len(set(values.values())) > 1:
            yield Problem(
                "error",
                "all servers",
                f"they differ in their {what}: " + ", ".join(f"{n}: {v}" for n, v in values.items()),
                "a connection string may name another database",
            )
    strides = {server.name: member.slots for server, _, member in facts.members}
    if len(set(strides.values())) > 1:
        yield Problem(
            "error",
            "all semi-primaries",
            f"they differ in the strides of sequences: {strides}",
            "release those with the wrong one, and join again",
        )
    if len(facts.primaries) > 1:
        yield Problem(
            "error",
            "all servers",
            "there is more than one primary among them",
            "each cluster has one: look at one cluster at a time",
        )


def schemas(facts: Facts) -> Iterator[Problem]:
    """What the semi-primaries do not have alike."""
    behind = {server.name: member.catalog_version for server, _, member in facts.members}
    servers = {server.name: server.comparable for server in facts.servers if server.comparable is not None}
    yield from obstacles.compare(servers)
    if len(set(behind.values())) > 1:
        numbers = ", ".join(f"{name}: {version}" for name, version in behind.items())
        yield Problem(
            "warning",
            "version of the catalog",
            numbers,
            "look again when all have applied the newest schema change",
        )
    else:
        yield from obstacles.differing_schemas(servers)
    for server, _, member in facts.members:
        if server.comparable is None and len(facts.members) > 1:
            yield Problem(
                "note", server.name, "its schema is not compared", "name a superuser in its connection string"
            )
        if not member.guarded:
            yield Problem(
                "note",
                server.name,
                "it was adopted without a superuser: nothing refuses schema changes here",
                "change the schema nowhere",
            )


_OWN_POINTS = {"sequences": "sequence ", "jobs": "job ", "prepared": "prepared transaction "}
_WARNINGS = re.compile(
    r"subscription |materialized view |index .* is dropped here|trigger .* is set aside|CHECK .* judges "
    r"|publication .* has lost |table .* replica identity |the owner of a table, "
)


def _guard(facts: Facts) -> Iterator[tuple[str, str]]:
    for server, _, member in facts.members:
        for problem in member.guard_problems:
            yield server.name, problem


def sequences(facts: Facts) -> Iterator[Problem]:
    """Each semi-primary has its share of a sequence's numbers."""
    for name, problem in _guard(facts):
        if problem.startswith(_OWN_POINTS["sequences"]):
            yield Problem("warning", name, problem, "make the column, and with it the sequence, a bigint")


def jobs(facts: Facts) -> Iterator[Problem]:
    """Statements that each semi-primary runs by itself, such as CREATE INDEX CONCURRENTLY."""
    for name, problem in _guard(facts):
        if problem.startswith(_OWN_POINTS["jobs"]):
            yield Problem(
                "warning", name, problem, "remove the cause and call psp.retry_job, or end it by psp.end_job"
            )


def captured(facts: Facts) -> Iterator[Problem]:
    """Every table is captured, and nothing has changed past the guard."""
    for name, problem in _guard(facts):
        if not problem.startswith(tuple(_OWN_POINTS.values())):
            severity: Severity = "warning" if _WARNINGS.match(problem) else "error"
            yield Problem(severity, name, problem, "")


def roles(facts: Facts) -> Iterator[Problem]:
    """psp's roles have their rights and no more, and nobody else has them."""
    for name, health in facts.healths:
        wanted = ("pg_monitor", "pg_signal_backend", "session_replication_role")
        daemon, needs = (
            ("psp_primary", ("pg_signal_backend",))
            if health.kind == "primary"
            else ("psp_semi_primary", wanted)
        )
        for role, found in health.roles.items():
            if found["superuser"]:
                yield Problem(
                    "warning",
                    name,
                    f"role {role} is a superuser",
                    f"ALTER ROLE {role} NOSUPERUSER; it needs no more than its rights",
                )
        if health.roles.get("psp_functions", {}).get("login"):
            yield Problem(
                "error",
                name,
                "role psp_functions may log in: who does can forge commits",
                "ALTER ROLE psp_functions NOLOGIN",
            )
        owned = health.roles.get(daemon)
        if health.kind is not None and owned is not None and not owned["superuser"]:
            for right in needs:
                if not owned[right]:
                    what = (
                        "GRANT SET ON PARAMETER session_replication_role"
                        if right == "session_replication_role"
                        else f"GRANT {right}"
                    )
                    yield Problem("error", name, f"role {daemon} lacks {right}", f"{what} TO {daemon}")
        for found_role in health.mighty:
            yield Problem(
                "warning",
                name,
                f"role {found_role}: it could read psp's token or write past psp",
                "give the right to roles that you trust with the cluster only",
            )
    for server, _, member in facts.members:
        for owner in member.owners_without_right:
            yield Problem(
                "note",
                server.name,
                f"an owner of tables may not change the schema: {owner.split(': ', 1)[0]}",
                owner.split(": ", 1)[1],
            )
