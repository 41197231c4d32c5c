"""A few fixed seeds of the fuzzer; `make fuzz` runs as many random ones as there is time for."""

from collections.abc import Iterator

import pytest

from tests.fuzz.cases import Tally, make_case, run_case
from tests.fuzz.world import World

SEEDS = range(1, 13)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """The servers that all seeds share: each begins with empty tables."""
    with World() as made:
        yield made


def test_the_same_seed_makes_the_same_case() -> None:
    assert make_case(5) == make_case(5) != make_case(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_servers_and_a_plain_one_agree(world: World, seed: int) -> None:
    tally = Tally()
    run_case(world, make_case(seed), tally)
    assert tally.committed > tally.transactions / 3, tally
