# SPDX-License-Identifier: PostgreSQL
"""Requests that are served once, however often a client asks (psp.request, docs/once.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

ASK = (
    "SELECT state, failed, result::pg_catalog.text "
    "FROM psp.request(%s, %s, of_role => %s, wait => pg_catalog.make_interval(secs => %s))"
)
DONE = "SELECT psp.request_done(%s::pg_catalog.jsonb)"


@dataclass(frozen=True)
class Request:
    """What makes two attempts the same request.

    key: chosen by the client that begins it, and sent with each attempt. payload: what it asks for; the
    same key with another one is an error (PS422). of_role: the role whose request it is, if not the
    connection's. wait_s: how long to wait for another attempt at the same semi-primary (LockNotAvailable
    afterwards); None: until it has ended.
    """

    key: str
    payload: str = ""
    of_role: str | None = None
    wait_s: float | None = None

    @property
    def parameters(self) -> tuple[str, str, str | None, float | None]:
        """Of ASK."""
        return (self.key, self.payload, self.of_role, self.wait_s)


class RequestFailed(Exception):
    """The request has failed for good, by psp.request_failed. `result`: what is stored of that."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"psp: the request has failed: {result}")
        self.result = result


@dataclass(frozen=True)
class Answer:
    """What psp.request says."""

    is_new: bool
    failed: bool
    result: Any

    def known(self) -> Any:
        """The stored result. Raises RequestFailed."""
        if self.failed:
            raise RequestFailed(self.result)
        return self.result


def answer(row: tuple[Any, ...] | None) -> Answer:
    """The row of ASK."""
    assert row is not None
    state, failed, result = row
    return Answer(state == "new", bool(failed), None if result is None else json.loads(result))


def stored(result: Any) -> tuple[str, Any]:
    """What is stored of a result, and what every later attempt gets: tuples become lists, for example."""
    text = json.dumps(result)
    return text, json.loads(text)
