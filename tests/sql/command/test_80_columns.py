"""What people read fits a terminal of 80 columns, and nothing that tells two things apart is cut."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from psp.cli import app
from psp.cluster.verify import Verification, _render
from psp.output import table
from psp.primary import members
from psp.problems import Problem, problem_table
from rich.console import Console, RenderableType
from typer import Typer
from typer.testing import CliRunner

WIDTH = 80


def commands(group: Typer, *names: str) -> Iterator[tuple[str, ...]]:
    for command in group.registered_commands:
        name = command.name or (command.callback and command.callback.__name__.replace("_", "-"))
        assert name
        yield (*names, name)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        assert inner.name
        yield (*names, inner.name)
        yield from commands(inner.typer_instance, *names, inner.name)


def printed(what: RenderableType) -> list[str]:
    """As psp prints it."""
    console = Console(width=WIDTH, file=io.StringIO(), soft_wrap=True, highlight=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("names", [(), *commands(app)], ids="-".join)
def test_help_is_readable(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is broken where the next word has place, no example is broken, no word is cut."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERMINAL_WIDTH", str(WIDTH))
    shown = CliRunner().invoke(app, [*names, "--help"], terminal_width=WIDTH).stdout
    assert "…" not in shown.replace("…)", "").replace("[OPTIONS]", "")
    text = re.split(r"^╭", shown.split("Usage:", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.rstrip() for line in text.splitlines()[1:]]
    for line, following in pairwise(lines):
        if not line or not following or following.startswith("  ") or line.startswith("  "):
            continue
        assert len(line) + 1 + len(following.split()[0]) > WIDTH - 2, f"{line!r} / {following!r}"
    examples = [line for line in lines if line.startswith("     ")]
    for example, following in pairwise(lines):
        broken = example in examples and re.match(r" \S", following)
        assert not broken, f"{example!r} / {following!r}"


def member(name: str) -> dict[str, Any]:
    seen = datetime(2026, 11, 26, 12, 30, tzinfo=UTC)
    return {
        "sp_id": 12, "name": name, "zone": "asia", "state": "member", "is_connected": False, "seen_at": seen,
        "acked_t": 1234567, "behind": 1234, "keeps_bytes": 2**30, "registered_at": seen,
    }  # fmt: skip


def test_the_primarys_status() -> None:
    status = {
        "is_served": True, "certified_by": "module", "epoch": 12, "mode": "native", "catalog_version": 104,
        "newest_t": 1234567890, "log_begins_t": 1234500000, "log_bytes": 5 * 2**30,
        "disk_free_bytes": 900 * 2**30,
        "semi_primaries": [member("tokyo"), member("lisbon")],
    }  # fmt: skip
    lines = printed(members.show(status))
    assert max(map(len, lines)) <= WIDTH
    assert "psp-primary runs and certifies by the server module" in lines[0]


def test_names_that_begin_alike_stay_two_names() -> None:
    names = [f"table public.order_line_of_the_shop_in_the_year_{year}" for year in (2025, 2026)]
    problem = "it has no primary key, and psp needs one in every table"
    lines = printed(
        problem_table(Problem("error", name, problem, "--add-keys gives it one") for name in names)
    )
    assert max(map(len, lines)) <= WIDTH
    shown = "".join("".join(line.split()) for line in lines)
    assert "…" not in shown
    cells = printed(table(None, ("name",), [(name,) for name in names]))
    assert len(set(cells)) == len(cells)


def test_the_verdict_is_the_last_word() -> None:
    notes = [Problem("note", f"collation pg_catalog.{n}", "it is only at north", "use others") for n in "abc"]
    lines = printed(_render(Verification(True, {"primary": {}, "north": {}}, [], notes)))
    assert "There are no tables to compare." in lines[-1]
    assert not any("collation" in line for line in lines)
    assert any("3 more that differ" in line for line in lines)
    warned = [*notes, Problem("warning", "role r", "it is only at north", "CREATE ROLE at south")]
    lines = printed(_render(Verification(True, {"primary": {}, "north": {}}, [], warned)))
    assert any("role r" in line for line in lines)
    assert "There are no tables to compare." in lines[-1]
