"""All points of `psp doctor`, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Sequence

from psp.doctor import cluster, servers
from psp.doctor.facts import Facts
from psp.doctor.points import Finding, Point

_OPERATING = "docs/operating.md"
_ADOPTING = "docs/adopting.md"
_SECURITY = "docs/security.md"


def _servers(facts: Facts) -> Sequence[object]:
    return facts.servers


def _healths(facts: Facts) -> Sequence[object]:
    return facts.healths


def _primaries(facts: Facts) -> Sequence[object]:
    return facts.primaries


def _members(facts: Facts) -> Sequence[object]:
    return facts.members


POINTS = (
    Point("every server answers", f"{_OPERATING}#psp-doctor", servers.answers, _servers),
    Point("psp-primary", f"{_OPERATING}#when-nobody-can-write", cluster.daemon_of_primary, _primaries),
    Point(
        "synchronous replication of the primary",
        f"{_OPERATING}#high-availability-of-the-primary",
        cluster.replication,
        _primaries,
    ),
    Point("streams", f"{_OPERATING}#is-all-well", cluster.streams, _members),
    Point("semi-primaries that are away", f"{_OPERATING}#is-all-well", cluster.away, _primaries),
    Point("the log", f"{_OPERATING}#is-all-well", cluster.log, _primaries),
    Point("one cluster", f"{_OPERATING}#is-all-well", cluster.agreement, _members),
    Point("versions", f"{_OPERATING}#upgrading-psp", servers.versions, _healths),
    Point("server modules", f"{_OPERATING}#the-primarys-server-module", servers.modules, _healths),
    Point("tables and the guard", f"{_ADOPTING}#schema-changes", cluster.captured, _members),
    Point("sequences", f"{_ADOPTING}#what-changes-for-the-application", cluster.sequences, _members),
    Point("jobs", "docs/schema-changes.md#jobs", cluster.jobs, _members),
    Point("schemas are alike", f"{_OPERATING}#comparing-the-servers", cluster.schemas, _members),
    Point("roles and grants", f"{_SECURITY}#the-roles", cluster.roles, _healths),
    Point("search_paths", f"{_SECURITY}#which-role-runs-what", servers.search_paths, _healths),
    Point("keys and TLS", f"{_OPERATING}#the-network", servers.encryption, _healths),
    Point("isolation", f"{_ADOPTING}#2-check-the-database", servers.isolation, _healths),
    Point("timeouts", "docs/errors.md#after-an-error-at-commit", servers.timeouts, _healths),
    Point("long transactions", f"{_OPERATING}#losers-and-reservations", servers.transactions, _healths),
    Point(
        "prepared transactions",
        f"{_SECURITY}#what-psp-does-not-protect-from",
        servers.prepared_transactions,
        _healths,
    ),
    Point("vacuum and transaction ids", f"{_OPERATING}#postgresqls-own-settings", servers.vacuum, _healths),
    Point("durability", f"{_OPERATING}#postgresqls-own-settings", servers.durability, _healths),
    Point("the primary's disk", f"{_OPERATING}#psp-doctor", cluster.disk, _primaries),
    Point("disk space", f"{_OPERATING}#psp-doctor", servers.disk, _healths),
    Point("backup", f"{_OPERATING}#backup", servers.backup, _healths),
    Point("clocks", f"{_OPERATING}#psp-doctor", servers.clocks, _healths),
)


def judge(facts: Facts) -> list[Finding]:
    """One finding for each point, in their order."""
    return [point.judge(facts) for point in POINTS]
