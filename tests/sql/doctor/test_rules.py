"""Each rule of psp doctor, both ways: all is fine, and one change makes one point worse."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psp.cluster.obstacles import Server as Comparable
from psp.doctor.facts import Clock, Facts, Server
from psp.doctor.points import EXIT_CODES, Finding, worst
from psp.doctor.rules import POINTS, judge

from tests.sql.doctor.facts import ROLE, SETTINGS, facts, member, primary, row

ROOT = Path(__file__).parents[3]
OPERATOR = "psp_semi_primary"


def findings(found: Facts) -> dict[str, Finding]:
    return {finding.point: finding for finding in judge(found)}


def test_a_fine_cluster_is_fine_at_every_point() -> None:
    found = judge(facts())
    assert {f.point: f.problems for f in found if f.verdict != "fine"} == {}
    assert worst(found) == "fine"
    assert len({point.name for point in POINTS}) == len(POINTS)


def setting(kind: Callable[..., Server], **more: str) -> Server:
    return kind(health_={"settings": SETTINGS | more})


def role(**more: Any) -> dict[str, Any]:
    return {"roles": {OPERATOR: ROLE | more}}


def slot(kept: int) -> Server:
    return member(health_={"slots": [{"name": "s", "active": False, "bytes": kept}]})


def guard(problem: str) -> Server:
    return member(guard_problems=[problem])


def things(**more: Any) -> dict[str, Any]:
    return {"comparable": Comparable({("role", name): "" for name in more}, {}, {}, True)}


CASES = [
    ("every server answers", "wrong", [Server("tokyo", trouble="it does not answer: refused")], "refused"),
    ("psp-primary", "wrong", [primary(is_served=False)], "does not run"),
    ("psp-primary", "wrong", [primary(is_served=False, hands_over=True)], "hands over"),
    ("the primary's disk", "wrong", [primary(disk_free_bytes=2**29)], "0.5 of 1,024.0 GiB are free"),
    ("the primary's disk", "look", [primary(disk_free_bytes=2**32)], "4.0 of 1,024.0 GiB are free"),
    ("psp-primary", "wrong", [primary(standstill="hearing: tokyo", standstill_s=1)], "hears first"),
    ("psp-primary", "wrong", [primary(standstill="standby", standstill_s=5)], "lack what was written"),
    ("synchronous replication of the primary", "wrong", [primary(synchronous_standbys=0)], "0 of 1"),
    ("synchronous replication of the primary", "look", [primary(copies=0)], "after a failover"),
    ("synchronous replication of the primary", "wrong", [primary(waits_for_standbys_s=7.0)], "for 7.0 s"),
    (
        "synchronous replication of the primary", "look",
        [primary(health_={"senders": []}, copies=0, synchronous_standby_names="", synchronous_standbys=0)],
        "no synchronous standby",
    ),
    (
        "synchronous replication of the primary", "wrong",
        [primary(health_={"senders": [{"name": "s2", "state": "streaming", "sync_state": "async"}]}, copies=0,
                 synchronous_standby_names="", synchronous_standbys=0)],
        "(s2) are asynchronous",
    ),
    (
        "synchronous replication of the primary", "wrong",
        [primary(health_={"roles": {"psp_primary": ROLE | {"pg_read_all_stats": False}}})], "may not see",
    ),
    ("streams", "wrong", [member(state="failed", last_error="no such role")], "failed: no such role"),
    ("streams", "wrong", [member(state="stopped")], "stopped"),
    ("streams", "look", [member(state="joining")], "joining"),
    ("streams", "look", [member(last_error="a row was refused")], "a row was refused"),
    ("streams", "look", [member(lag_ms=60_000.0, lag_transactions=5)], "60 s behind"),
    (
        "semi-primaries that are away", "wrong",
        [primary(semi_primaries=[row("lisbon"), row("tokyo", is_connected=False, keeps_bytes=3 * 2**20)])],
        "2026-01-02 00:00:00), and keeps 3.0 MiB",
    ),
    ("the log", "look", [primary(log_bytes=2 * 2**30)], "2.0 GiB"),
    ("one cluster", "wrong", [member(cluster_id="c2")], "differ in their cluster"),
    ("one cluster", "wrong", [member(mode="views")], "differ in their mode"),
    ("one cluster", "wrong", [member(slots=8)], "strides"),
    ("one cluster", "wrong", [primary(), primary({"name": "primary 2"})], "more than one primary"),
    ("versions", "wrong", [member(server={"schema_version": 1})], "version 1"),
    ("versions", "wrong", [member(health_={"version_num": 990000})], "newer than this psp"),
    ("tables and the guard", "wrong", [guard("public.t exists here only")], "t exists"),
    ("tables and the guard", "wrong", [guard("trigger x of public.t has changed")], "trigger x"),
    ("tables and the guard", "look", [guard("subscription s may write rows here")], "subscription"),
    ("sequences", "look", [guard("sequence public.s: 5 numbers are left")], "5 numbers"),
    ("jobs", "look", [guard("job 3.1 has failed: no space")], "no space"),
    ("schemas are alike", "look", [member(server=things(a=1)), member("tokyo", things())], "only at lisbon"),
    ("schemas are alike", "look", [member(catalog_version=4)], "lisbon: 4, tokyo: 3"),
    ("roles and grants", "wrong", [member(health_=role(pg_monitor=False))], "lacks pg_monitor"),
    ("roles and grants", "look", [member(health_=role(superuser=True))], "is a superuser"),
    ("roles and grants", "look", [member(health_={"mighty": ["report: CREATEROLE"]})], "report"),
    (
        "roles and grants", "wrong",
        [member(health_={"roles": {OPERATOR: ROLE, "psp_functions": ROLE}})], "psp_functions may log in",
    ),
    ("search_paths", "look", [member(health_={"open_schemas": ["public"]})], "schema public"),
    ("keys and TLS", "wrong", [member(server={"open_doors": ["line 3: host all 0.0.0.0 trust"]})], "line 3"),
    ("keys and TLS", "look", [setting(member, ssl="off", synchronous_commit="off")], "ssl is off"),
    ("keys and TLS", "look", [member(hook_tls="require")], "without a check"),
    ("isolation", "wrong", [setting(member, default_transaction_isolation="serializable")], "is refused"),
    (
        "isolation", "wrong",
        [member(health_={"overrides": ["role app: default_transaction_isolation=serializable"]})], "role app",
    ),
    ("timeouts", "look", [setting(member, statement_timeout="500")], "500 ms"),
    ("timeouts", "look", [setting(primary, wal_sender_timeout="0")], "not noticed"),
    (
        "long transactions", "look",
        [member(health_={"transactions": [{"pid": 7, "role": "app", "state": "active", "seconds": 3600}]})],
        "3600 s (pid 7)",
    ),
    (
        "prepared transactions", "wrong",
        [member(health_={"prepared": [{"gid": "g", "role": "app", "seconds": 90}]})], "'g'",
    ),
    ("vacuum and transaction ids", "wrong", [setting(member, autovacuum="off")], "autovacuum is off"),
    ("vacuum and transaction ids", "look", [member(health_={"without_autovacuum": ["s.t"]})], "s.t"),
    (
        "vacuum and transaction ids", "look",
        [member(health_={"databases": [{"name": "a", "xids": 1_100_000_000, "multixacts": 0}]})], "ids are",
    ),
    (
        "vacuum and transaction ids", "wrong",
        [member(health_={"databases": [{"name": "a", "xids": 0, "multixacts": 1_700_000_000}]})], "multi",
    ),
    ("durability", "wrong", [setting(primary, fsync="off")], "fsync is off"),
    ("durability", "look", [setting(member, full_page_writes="off")], "full_page_writes is off"),
    ("disk space", "look", [slot(2**31)], "2.0 GiB"),
    ("backup", "wrong", [primary(health_={"archiving_fails": True})], "archive"),
    ("clocks", "look", [member("tokyo", {"clock": Clock(9.0, 0.5)})], "9.0 s ahead of"),
]  # fmt: skip


@pytest.mark.parametrize(("point", "verdict", "servers", "told"), CASES)
def test_one_change_makes_one_point_worse(point: str, verdict: str, servers: list[Server], told: str) -> None:
    found = findings(facts(*servers))
    assert found[point].verdict == verdict
    assert any(told in problem.problem for problem in found[point].problems), found[point].problems
    assert {name for name, finding in found.items() if finding.verdict != "fine"} == {point}


NOTES = [
    ("every server answers", [member(health_={"superuser": False})], "no superuser"),
    ("server modules", [member(capture="sql")], "psp_capture"),
    ("the primary's disk", [primary(disk_free_bytes=None, disk_bytes=None)], "does not tell"),
    ("server modules", [primary(certified_by="sql")], "psp_certify"),
    ("versions", [member(health_={"version_num": 170002})], "15, 17"),
    (
        "semi-primaries that are away",
        [primary(semi_primaries=[row("lisbon"), row("tokyo"), row("oslo")])],
        "looked",
    ),
    ("timeouts", [member(health_={"overrides": ["role app: statement_timeout=5s"]})], "role app"),
    ("prepared transactions", [setting(member, max_prepared_transactions="5")], "max_prepared"),
    ("durability", [setting(member, synchronous_commit="on")], "synchronous_commit"),
    ("backup", [setting(primary, archive_mode="off")], "archive_mode"),
    ("schemas are alike", [member(guarded=False)], "without a superuser"),
    ("roles and grants", [member(owners_without_right=["app: GRANT …"])], "app"),
]


@pytest.mark.parametrize(("point", "servers", "told"), NOTES)
def test_what_is_only_worth_knowing_changes_no_verdict(point: str, servers: list[Server], told: str) -> None:
    found = findings(facts(*servers))
    assert any(told in problem.problem for problem in found[point].problems)
    assert not any(told in problem.problem for problem in findings(facts())[point].problems)
    assert all(finding.verdict == "fine" for finding in found.values())


def test_a_point_is_not_worse_before_its_limit() -> None:
    young = {"pid": 7, "role": "app", "state": "active", "seconds": 899}
    fresh = {"gid": "g", "role": "app", "seconds": 59}
    small = {"name": "s", "active": False, "bytes": 2**30 - 1}
    used = {"name": "u", "active": True, "bytes": 2**40}
    calm = member(
        health_={"transactions": [young], "prepared": [fresh], "slots": [small, used]},
        server={"clock": Clock(2.4, 0.5)},
    )
    assert worst(judge(facts(calm))) == "fine"


def test_the_pages_of_all_points_exist() -> None:
    for point in POINTS:
        file, anchor = point.page.split("#")
        titles = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, (
            point.page
        )


def test_no_primary_was_named() -> None:
    found = findings(Facts((member(),)))
    assert found["semi-primaries that are away"].verdict == "look"
    assert found["synchronous replication of the primary"].verdict == "unknown"


def test_nothing_is_fine_that_nobody_could_tell() -> None:
    found = judge(Facts((Server("lisbon", trouble="it does not answer"),)))
    assert {finding.verdict for finding in found} == {"wrong", "unknown", "look"}
    assert [f.point for f in found if f.verdict == "wrong"] == ["every server answers"]
    assert worst(found) == "wrong"


def test_exit_codes_are_those_of_monitoring() -> None:
    assert EXIT_CODES == {"fine": 0, "unknown": 1, "look": 1, "wrong": 2}
