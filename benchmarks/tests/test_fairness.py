"""The arithmetic of the fairness benchmark."""

import pytest
from psp.cluster.local import SpNode

from benchmarks.fairness.__main__ import Client, fair_shares, result_of


def _client(zone: str, rtt_ms: float, commits: int) -> Client:
    return Client(SpNode(zone, zone, rtt_ms, "", ""), rtt_ms, commits, aborts=1)


def test_fair_shares_follow_the_round_trips() -> None:
    assert fair_shares([30, 90, 0], 45) == pytest.approx([500, 1500 / 9, 15000])


def test_targets() -> None:
    forms = {
        "without": [_client("near", 50, 1000), _client("far", 100, 0)],
        "with": [_client("near", 50, 740), _client("far", 100, 60)],
    }
    targets = result_of(forms, 40)["targets"]
    assert targets["least_of_fair_share"] == {"measured": 0.3, "target": 0.333, "holds": False}
    assert targets["throughput"] == {"measured": 0.8, "target": 0.8, "holds": True}
