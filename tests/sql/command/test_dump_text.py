"""The pieces of a dump: what stands in quoted text begins none."""

from __future__ import annotations

import io

from psp.schema.dump_text import Dump, Piece

HEADER = "--\n-- Name: {}; Type: {}; Schema: public; Owner: -\n--\n\n"
IMITATION = HEADER.format("x", "TRIGGER") + "COPY t FROM stdin;\n\\restrict abc\n-- said\n"


def pieces(text: str) -> list[Piece]:
    dump = Dump(io.BytesIO(text.encode()))
    found = []
    for piece in dump.pieces():
        found.append(piece)
        if piece.is_copy:
            assert list(dump.rows()) == [b"1\n"]
    return found


def check_body(begin: str, end: str) -> None:
    body = f"CREATE FUNCTION f() AS {begin}\n{IMITATION}{end};"
    rows = HEADER.format("t", "TABLE DATA") + "COPY public.t (id) FROM stdin;\n1\n\\.\n"
    dumped = f"\\restrict k\n{HEADER.format('f', 'FUNCTION')}{body}\n-- gone\n{rows}\\unrestrict k\n"
    found = pieces(dumped)
    assert [(piece.kind, piece.sql.decode()) for piece in found] == [
        ("FUNCTION", body), ("TABLE DATA", "COPY public.t (id) FROM stdin;\n"),
    ]  # fmt: skip


def test_bodies_of_functions() -> None:
    check_body("$$", "$$")
    check_body("$_x1$ $$ $", "$_x1$")
    check_body("'it''s", "'")
    check_body("E'it\\'s \\", "'")
    check_body("'' || 'a", "'")


def test_names_and_comments() -> None:
    check_body('1; COMMENT ON TABLE "a""b', '"')
    check_body("/* it's", "*/ 1")
    check_body("x$1$ + 'b -- c", "'")
    check_body("1 -- don't\n || 'c", "'")
