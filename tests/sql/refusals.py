"""What a refused statement ends with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg import errors


@contextmanager
def refused(words: str = "") -> Iterator[None]:
    """Inside, psp refuses a statement and says what to do. `words` is a pattern in the error's texts."""
    with pytest.raises(errors.FeatureNotSupported, match="psp: ") as caught:
        yield
    diag = caught.value.diag
    assert diag.message_hint
    assert re.search(words, f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"), diag


@contextmanager
def explained(words: str = "") -> Iterator[None]:
    """`refused` with a DETAIL, which the guard against schema changes always gives."""
    with refused(words):
        try:
            yield
        except errors.FeatureNotSupported as error:
            assert error.diag.message_detail
            raise


@contextmanager
def not_allowed() -> Iterator[None]:
    """Inside, a statement is refused by psp or because its role has no right to it."""
    with pytest.raises((errors.FeatureNotSupported, errors.InsufficientPrivilege)):
        yield
