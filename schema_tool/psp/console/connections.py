"""The connections of the console's server: bounded in number, and in the time of a request's head."""

from __future__ import annotations

import io
import socket
import threading
import time
from contextlib import suppress

CONNECTIONS_MAX = 64
HEAD_MAX_S = 10.0
IDLE_MAX_S = 20
_ROOM_MAX_S = 1.0


class HeadReader(io.RawIOBase):
    """Reads from a socket until a deadline for all of it: a byte now and then does not prolong it."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        rest = self._deadline - time.monotonic()
        if rest <= 0:
            raise TimeoutError
        self._connection.settimeout(rest)
        return self._connection.recv_into(buffer)


class Places:
    """Of connections. When all are taken, the oldest that has not asked yet gives way. For any thread."""

    def __init__(self, places: int) -> None:
        self._changed = threading.Condition()
        self._free = places
        self._silent: list[socket.socket] = []

    def take(self) -> bool:
        """A place; at most for a second it waits until one that must give way has gone."""
        with self._changed:
            if self._free == 0 and self._silent:
                with suppress(OSError):  # its thread ends by that
                    self._silent.pop(0).shutdown(socket.SHUT_RDWR)
            if not self._changed.wait_for(lambda: self._free > 0, _ROOM_MAX_S if self._free == 0 else 0):
                return False
            self._free -= 1
            return True

    def give_back(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify()

    def silent(self, connection: socket.socket) -> None:
        """It has a place, and has not asked yet."""
        with self._changed:
            self._silent.append(connection)

    def asks(self, connection: socket.socket) -> None:
        """Its request is there, or it has gone."""
        with self._changed, suppress(ValueError):
            self._silent.remove(connection)
