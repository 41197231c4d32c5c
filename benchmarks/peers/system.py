"""What the systems that are compared have in common."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from benchmarks.tpcc.runner import Server

DATABASE = "tpcc"


class System(Protocol):
    """Servers in their places, with a loaded TPC-C."""

    def about(self) -> str:
        """What it is, as the server itself says."""

    def server(self, zone: str) -> Server:
        """What the clients of a zone connect to, from within the zone."""

    def pids(self) -> Mapping[str, Sequence[int]]:
        """The processes whose CPU time counts, with all their children, by what they are."""

    def settle(self) -> None:
        """Returns when every server has what any of them has committed."""

    def wrong(self) -> list[str]:
        """What is wrong with the rows; nothing may write meanwhile."""
