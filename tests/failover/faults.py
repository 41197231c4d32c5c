"""What fails. What is killed is started again, and what is stopped goes on, by Group.bring_back."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.failover.nodes import Node

Strike = Callable[[Node], None]
Place = Literal["the leader", "the synchronous standby", "any node"]


@dataclass(frozen=True)
class Fault:
    """`moves`: another node is the leader afterwards."""

    name: str
    place: Place
    strike: Strike
    moves: bool = False


FAULTS = (
    Fault("leader: PostgreSQL killed", "the leader", lambda node: node.kill("postgres"), moves=True),
    Fault("leader: node killed", "the leader", Node.kill_all, moves=True),
    Fault("leader: node stopped", "the leader", Node.freeze, moves=True),
    Fault("leader: Patroni killed", "the leader", lambda node: node.kill("patroni"), moves=True),
    Fault("leader: psp-primary killed", "the leader", lambda node: node.kill("daemon")),
    Fault("standby: node killed", "the synchronous standby", Node.kill_all),
    Fault("standby: node stopped", "the synchronous standby", Node.freeze),
    Fault("etcd member killed", "any node", lambda node: node.kill("etcd")),
)


def draw(random: Random) -> list[Fault]:
    """All of them, in an order that is drawn."""
    return random.sample(FAULTS, len(FAULTS))
