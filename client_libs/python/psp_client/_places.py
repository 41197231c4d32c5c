# SPDX-License-Identifier: PostgreSQL
"""Several semi-primaries, the nearest first: which one is used, and what must be seen at the next one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Generic, NamedTuple, TypeVar
from uuid import uuid4

from psycopg import sql

TOKEN = "SELECT psp.token()"
FENCE = "SELECT psp.request_done('null') FROM psp.request(%s, '')"
"""A COMMIT that is decided after everything that is known to be committed: its token covers all that."""

_GONE = ("08006", "57P01", "57P02", "57P03")
_USELESS = ("22023", "55000")
S_co = TypeVar("S_co", covariant=True)


class Token(NamedTuple):
    """The parts of psp.token(). sp_id 0: of none; what counts is `newest`, once it is applied."""

    cluster: str
    history: str
    sp_id: int
    watermark: int
    newest: int

    @classmethod
    def of(cls, text: str) -> Token:
        """Of a text that psp.token() gave."""
        _, cluster, history, sp_id, watermark, newest = text.split(".")
        return cls(cluster, history, int(sp_id), int(watermark), int(newest))

    def __str__(self) -> str:
        return ".".join(("psp1", *map(str, self)))


def both(one: Token | None, other: Token) -> Token:
    """A token whose wait is one for both."""
    if one is None or one.cluster != other.cluster:
        return other
    older, newer = sorted((one, other), key=lambda token: (token.newest, token.watermark))
    if older.sp_id == newer.sp_id or newer.watermark >= older.newest:
        return newer
    return newer._replace(sp_id=0)  # at its semi-primary it may be seen without the other's


def wait_statement(token: str) -> sql.Composed:
    """For a session whose default is another isolation level."""
    begin = sql.SQL("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT psp.wait_for({}); COMMIT")
    return begin.format(sql.Literal(token))


def is_gone(sqlstate: str | None) -> bool:
    """Whether another semi-primary may do better. None: the connection is lost."""
    return sqlstate is None or sqlstate in _GONE


def is_useless(sqlstate: str | None) -> bool:
    """Whether no wait for the token will ever succeed."""
    return sqlstate in _USELESS


def fence_key() -> str:
    """Of a request that nobody repeats."""
    return f"psp_client {uuid4()}"


class Seen:
    """The newest token of what a program has committed or seen. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token: Token | None = None

    def wanted_at(self, sp_id: int | None) -> str | None:
        """The token to wait for before a transaction there. None: all was seen or committed there."""
        token = self._token
        return None if token is None or token.sp_id == sp_id else str(token)

    def note(self, text: str) -> int:
        """What is seen now; returns at which semi-primary."""
        token = Token.of(text)
        with self._lock:
            self._token = both(self._token, token)
        return token.sp_id

    def note_fence(self, text: str) -> str:
        """What a fence's token covers; returns the token of that, which counts at its own place, too."""
        token = str(Token.of(text)._replace(sp_id=0))
        self.note(token)
        note_for_user(token)
        return token

    @property
    def text(self) -> str | None:
        """For who carries it himself."""
        return None if self._token is None else str(self._token)

    def forget(self) -> None:
        """What was seen is not in the cluster any more."""
        self._token = None


of_user: ContextVar[Seen | None] = ContextVar("psp_client.of_user", default=None)
"""What the user of the web call that is being served has seen: psp_client.web.read_your_writes sets it."""


def waits_for(seen: Seen, sp_id: int | None) -> list[tuple[Seen, str]]:
    """What must be there before a transaction: the program's own, and its user's."""
    user = of_user.get()
    found = [(seen, seen.wanted_at(sp_id)), *([] if user is None else [(user, user.wanted_at(None))])]
    return [(whose, token) for whose, token in found if token is not None]


def note_for_user(token: str) -> None:
    """If a web call is being served."""
    user = of_user.get()
    if user is not None:
        user.note(token)


def is_in_vain(sqlstate: str | None, has_begun: bool) -> bool:
    """Whether a wait has taken too long. A user may have invented the token: not again."""
    return not has_begun and sqlstate == "57014"


class Places(Generic[S_co]):
    """Ways to several semi-primaries, the nearest first, and what was seen through them.

    To be made once, and used by all threads of a program. Where one is gone the next one is taken; once in
    `back_after_s` the nearest is tried again.
    """

    def __init__(
        self, *sources: S_co, back_after_s: float = 60.0, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        if not sources:
            raise ValueError("psp: no semi-primary is named")
        self.sources = sources
        self.seen = Seen()
        self._back_after_s = back_after_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._at = 0
        self._left_s = 0.0
        self._sp_ids: dict[int, int] = {}

    @property
    def at(self) -> int:
        """The number of the source to use."""
        with self._lock:
            if self._at and self._now_s() - self._left_s >= self._back_after_s:
                self._at = 0
            return self._at

    @property
    def are_several(self) -> bool:
        """Else the program has nowhere to carry a token to."""
        return len(self.sources) > 1

    @property
    def need_tokens(self) -> bool:
        """Whether somebody carries them."""
        return self.are_several or of_user.get() is not None

    def leave(self, place: int) -> None:
        """It cannot be reached: the next one, unless another thread has gone there already."""
        with self._lock:
            self._sp_ids.pop(place, None)  # it may come back with less, for a moment
            if self._at == place:
                self._at = (place + 1) % len(self.sources)
                self._left_s = self._now_s()

    def waits_at(self, place: int) -> list[tuple[Seen, str]]:
        """What must be there before a transaction, and whose it is."""
        return waits_for(self.seen, self._sp_ids.get(place))

    def note(self, place: int, text: str) -> None:
        """What is seen there now."""
        self._sp_ids[place] = self.seen.note(text)
        note_for_user(text)
