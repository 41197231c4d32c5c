# SPDX-License-Identifier: PostgreSQL
"""Which semi-primary is taken, and which token must be seen there."""

from __future__ import annotations

import pytest
from psp_client._places import Places, Seen, Token, both


def token(sp_id: int, watermark: int, newest: int) -> Token:
    return Token("0a1b2c3d", "4e5f6071", sp_id, watermark, newest)


def test_a_token_is_read_and_written() -> None:
    text = "psp1.3f0c9a41.-.1.4711.4713"
    assert str(Token.of(text)) == text
    assert Token.of(text) == Token("3f0c9a41", "-", 1, 4711, 4713)


@pytest.mark.parametrize(
    ("one", "other", "waited_for"),
    [
        (None, token(1, 5, 7), token(1, 5, 7)),
        (token(1, 5, 7), token(1, 6, 8), token(1, 6, 8)),
        (token(1, 6, 8), token(1, 5, 7), token(1, 6, 8)),  # two threads, in another order
        (token(1, 5, 7), token(2, 7, 9), token(2, 7, 9)),  # the other one has applied it
        (token(1, 5, 7), token(2, 6, 9), token(0, 6, 9)),  # at 2 the other's 7 may be missing
        (token(0, 5, 7), token(2, 6, 9), token(0, 6, 9)),
        (token(0, 5, 7), token(2, 7, 9), token(2, 7, 9)),
        (token(2, 6, 9), token(0, 5, 7), token(0, 6, 9)),
    ],
)
def test_one_wait_does_for_two_tokens(one: Token | None, other: Token, waited_for: Token) -> None:
    assert both(one, other) == waited_for


def test_another_cluster_begins_again() -> None:
    other = token(1, 1, 2)._replace(cluster="ffffffff")
    assert both(token(1, 5, 7), other) == other


def test_nothing_is_waited_for_where_it_was_seen() -> None:
    places = Places("near", "next")
    assert places.waits_at(0) == []
    places.note(0, str(token(1, 5, 7)))
    assert places.waits_at(0) == []
    assert places.waits_at(1) == [(places.seen, str(token(1, 5, 7)))]
    places.leave(0)  # what comes back may have lost its last moments
    assert places.waits_at(0) == [(places.seen, str(token(1, 5, 7)))]


def test_a_fence_counts_at_its_own_place_too() -> None:
    seen = Seen()
    assert seen.note_fence(str(token(1, 5, 7))) == str(token(0, 5, 7))
    assert seen.wanted_at(1) == str(token(0, 5, 7))
    seen.forget()
    assert seen.wanted_at(2) is None


def test_the_next_one_is_taken_and_later_the_nearest_is_tried() -> None:
    now_s = [0.0]
    places = Places("near", "next", "far", back_after_s=60, now_s=lambda: now_s[0])
    places.leave(0)
    places.leave(0)  # of another thread
    assert places.at == 1
    places.leave(1)
    assert places.at == 2
    now_s[0] = 60
    assert places.at == 0


def test_somewhere_it_must_be() -> None:
    with pytest.raises(ValueError, match="no semi-primary"):
        Places[str]()
