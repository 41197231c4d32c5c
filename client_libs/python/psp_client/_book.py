# SPDX-License-Identifier: PostgreSQL
"""Which requests are under way, when they are sent again, what was answered. Pure: time in, bytes out."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psp_client._messages import Kind, Reply, Status, read_reply, request

# FAILED replies that say nothing of the transaction's end: the same request is sent again, later.
ASK_AGAIN = frozenset({"08007", "57P03", "25001"})


@dataclass
class _Request:
    message: bytes
    send_at_s: float
    unanswered: int = 0


class RequestBook:
    """One connection's requests. A request is sent again after `retry_interval_s` without an answer."""

    def __init__(self, retry_interval_s: float) -> None:
        self._retry_interval_s = retry_interval_s
        self._requests: dict[int, _Request] = {}
        self._replies: dict[int, Reply] = {}
        self._last_failure: dict[int, Reply] = {}
        self._next_id = 1

    def ask(self, kind: Kind, tx_id: UUID, now_s: float) -> int:
        """Notes a request, which `due` gives out at once; returns its number."""
        number = self._next_id
        self._next_id += 1
        self._requests[number] = _Request(request(number, kind, tx_id), now_s)
        return number

    def due(self, now_s: float) -> list[bytes]:
        """The messages that are to be sent now."""
        result = []
        for found in self._requests.values():
            if found.send_at_s <= now_s:
                found.send_at_s = now_s + self._retry_interval_s
                found.unanswered += 1
                result.append(found.message)
        return result

    def send_all_again(self) -> None:
        """Everything is due: nothing has been sent on the new connection."""
        for found in self._requests.values():
            found.send_at_s = 0.0
            found.unanswered = 0

    def wait_s(self, now_s: float) -> float:
        """How long until the next message is due; without a request `retry_interval_s`."""
        later_s = now_s + self._retry_interval_s
        return max(0.0, min((r.send_at_s for r in self._requests.values()), default=later_s) - now_s)

    def is_empty(self) -> bool:
        """Whether nothing waits for an answer."""
        return not self._requests

    def unanswered(self, number: int) -> int:
        """How often the request was sent since the semi-primary was last heard about it."""
        found = self._requests.get(number)
        return found.unanswered if found else 0

    def receive(self, data: bytes) -> int | None:
        """Takes a message that has arrived. Returns the number of the request that it answers, if any."""
        reply = read_reply(data)
        found = self._requests.get(reply.request_id) if reply else None
        if reply is None or found is None:
            return None  # no reply, or one that came twice
        found.unanswered = 0
        if reply.status == Status.FAILED and reply.sqlstate in ASK_AGAIN:
            self._last_failure[reply.request_id] = reply
            return None
        del self._requests[reply.request_id]
        self._last_failure.pop(reply.request_id, None)
        self._replies[reply.request_id] = reply
        return reply.request_id

    def take(self, number: int) -> Reply | None:
        """The answer, once; None while there is none."""
        return self._replies.pop(number, None)

    def give_up(self, number: int) -> Reply | None:
        """Forgets the request. Returns the last reply that was no answer, if there was one."""
        self._requests.pop(number, None)
        self._replies.pop(number, None)
        return self._last_failure.pop(number, None)
