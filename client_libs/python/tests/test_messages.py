# SPDX-License-Identifier: PostgreSQL
"""The messages, byte by byte: what protoc's own code writes and reads for proto/psp_client.proto."""

from uuid import UUID

import pytest
from psp_client._messages import Kind, Reply, Status, read_reply, request

TX = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_request() -> None:
    assert request(300, Kind.COMMIT, TX) == b"\x08\xac\x02\x10\x01\x1a\x10" + TX.bytes


def test_reply() -> None:
    data = b"\x08\xac\x02\x10\x01\x1a\x10" + TX.bytes + b"\x20\xff\xff\xff\xff\x07"
    assert read_reply(data) == Reply(300, Status.COMMITTED, TX, global_t=2**31 - 1)


def test_reply_with_texts_and_unknown_fields() -> None:
    unknown = b"\x4a\x02xx" + b"\x51" + bytes(8) + b"\x5d" + bytes(4)  # fields 9, 10 and 11
    texts = b"\x2a\x0540001\x32\x02m\xc3\x3a\x01d\x42\x01h".replace(b"m\xc3", "ü".encode())
    expected = Reply(1, Status.ABORTED, sqlstate="40001", message="ü", detail="d", hint="h")
    assert read_reply(b"\x08\x01" + unknown + b"\x10\x02" + texts) == expected


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x1a\x10short", b"\x10\x63", b"\x0b", b"\xff" * 20, b"\x2a\x02\xff\xfe", b"\x1a\x01x"]
)
def test_garbage_is_no_reply(data: bytes) -> None:
    assert read_reply(data) is None
