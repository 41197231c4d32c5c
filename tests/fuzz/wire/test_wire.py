"""A few fixed seeds of the wire; `make fuzz-wire` runs as many random ones as there is time for."""

from collections.abc import Iterator

import pytest

from tests.fuzz.wire.cases import Tally, run_case
from tests.fuzz.wire.world import World

SEEDS = range(1, 5)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """The servers that all seeds share."""
    with World() as made:
        yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_semi_primary_that_was_taken_over_stops_nobody(world: World, seed: int) -> None:
    tally = Tally()
    run_case(world, seed, True, tally)
    assert tally.answers["committed"] and tally.answers["error"], tally
