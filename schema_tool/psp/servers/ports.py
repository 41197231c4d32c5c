"""TCP ports that are free now, below those that the kernel gives to outgoing connections."""

import random
import socket

FIRST_PORT = 15000
LAST_PORT = 32000


class PortAllocator:
    """Gives each port once. Starts at `base`, or somewhere at random so that clusters do not meet."""

    def __init__(self, base: int | None = None, taken: set[int] | None = None) -> None:
        self._next = base if base is not None else random.randrange(FIRST_PORT, LAST_PORT)
        self._taken = set(taken or ())

    def take(self) -> int:
        """A free port; raises OSError if there is none up to the last."""
        while self._next < 65536:
            port = self._next
            self._next += 1
            if port not in self._taken and _is_free(port):
                self._taken.add(port)
                return port
        raise OSError("no free TCP port left above the port base")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
