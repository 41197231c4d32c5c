"""What `psp primary switchover` finds wrong before it does anything."""

from dataclasses import replace

import pytest
from psp.output import PspError
from psp.primary.switchover import Source, Target, objections, refuse_unfit

SOURCE = Source(
    is_standby=False, system_identifier="7", cluster_id="c", copies=0, timeline="00000001", is_served=True,
    lost_slots=[], was_asked=False,
)  # fmt: skip
TARGET = Target(
    is_standby=True, system_identifier="7", cluster_id="c", streams=True, is_paused=False,
    synchronous_standby_names="", standbys=0, awaits_restart=[],
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ({}, {}, []),
        ({"is_served": False}, {}, ["no psp-primary serves"]),
        ({"is_served": False, "was_asked": True}, {}, []),
        ({"lost_slots": ["cdc"]}, {}, ["logical slots of the old server: cdc"]),
        ({"copies": 1}, {}, ["a synchronous standby"]),
        ({}, {"synchronous_standby_names": "p3"}, ["a synchronous standby"]),
        ({"copies": 1}, {"synchronous_standby_names": "p3", "standbys": 1}, []),
        (
            {},
            {"streams": False, "is_paused": True, "awaits_restart": ["max_connections"]},
            ["does not stream", "pg_wal_replay_resume", "restart only: max_connections"],
        ),
    ],
)
def test_what_is_looked_at(source: dict[str, object], target: dict[str, object], found: list[str]) -> None:
    told = list(objections(replace(SOURCE, **source), replace(TARGET, **target)))  # type: ignore[arg-type]
    assert len(told) == len(found)
    for text, one in zip(told, found, strict=True):
        assert one in text


def test_two_that_are_no_pair() -> None:
    refuse_unfit(SOURCE, TARGET)
    for source, target, why in (
        (replace(SOURCE, is_standby=True), TARGET, "has nothing to hand over"),
        (SOURCE, replace(TARGET, is_standby=False), "writable already"),
        (SOURCE, replace(TARGET, system_identifier="8"), "no standby of the first one"),
    ):
        with pytest.raises(PspError, match=why):
            refuse_unfit(source, target)
