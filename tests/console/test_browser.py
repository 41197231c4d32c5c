"""psp console in a real browser (`make test-console`): texts, keyboard, widths, no complaint."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psp.console.server import Access, Server
from psp.watch.model import View

from tests.console.driver import PROGRAM, Browser, browser
from tests.sql.command.test_console import TOKEN, a_view, job, port, served
from tests.sql.command.test_top import BLOCKER, NOW, conflict, member, primary, semi_primary, silent, view

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="chromedriver is not installed: make test-console")
WIDTHS = (320, 390, 768, 1280)
TAB = "\ue004"
WIDE = """
    return [...document.querySelectorAll('body *')]
        .filter(e => !e.closest('.hidden, thead, .skip, svg'))
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 80))
"""
LONG_KEY = "(v)=(" + "x" * 1000 + ")"


def times(rtt: float, parked: float = 0) -> dict[str, float]:
    parts = {
        "check_ms": 0.1, "network_ms": rtt + 0.5, "parked_ms": parked, "queue_ms": 0.8, "certify_ms": 1.1,
        "answer_ms": 0.1,
    }  # fmt: skip
    return parts | {"commit_ms": sum(parts.values()), "commit_p99_ms": rtt * 1.2}


def jobs(name: str) -> list[dict[str, object]]:
    index = "CREATE INDEX CONCURRENTLY item_name_idx ON item (name)"
    return [
        job("running" if name == "tokyo" else "done", statement=index),
        job("done", statement="VACUUM order_line", statement_n=0),
    ]


def busy(key: str = "(w_id, d_id)=(3, 7)") -> View:
    zones = [("lisbon", 30.1, 118.0), ("madrid", 31.0, 92.5), ("newyork", 90.3, 46.0), ("tokyo", 190.2, 25.0)]
    remedy = (
        "if transactions only add to and subtract from it, split the number over several records: "
        "psp mrv create public.item.stock DSN (docs/mrv.md)"
    )
    keys = [
        conflict("tokyo", 404, key="(id)=(4711)", winners="lisbon: 290, madrid: 114", remedy=remedy),
        conflict("newyork", 141, key="(id)=(4711)", winners="lisbon: 141", remedy=remedy),
        conflict("tokyo", 48, table_name="public.district", key=key, columns="next_o_id", rank=2),
    ]
    members = [member(name, zone=name) for name, _, _ in zones]
    away = member("sydney", is_connected=False, keeps_bytes=600 * 2**20)
    return view(
        primary(*members, away, conflicts=keys, log_bytes=217 * 2**20),
        *(
            semi_primary(name, rtt_ms=rtt, commits_per_s=tps, lag_ms=rtt / 2 + 8, waiting=3, losses_per_s=0.5,
                         blockers=[BLOCKER] if name == "tokyo" else [], jobs=jobs(name),
                         **times(rtt, parked=10.1 if name == "madrid" else 0))
            for name, rtt, tps in zones
        ),
    )  # fmt: skip


def blocked() -> View:
    told = {"state": "blocked", "can_commit": False, "last_error": "COMMITs wait for synchronous standbys"}
    return view(
        primary(member("lisbon"), member("tokyo"), standstill="standby", standstill_s=14, copies=1),
        semi_primary("lisbon", waiting=48, **told),
        semi_primary("tokyo", waiting=14, **told),
    )


VIEWS = {
    "busy": busy(),
    "long": busy(LONG_KEY),
    "blocked": blocked(),
    "plain": a_view(),
    "silent": view(silent("lisbon"), silent(None)),
    "twenty": view(primary(*(member(f"sp{n}") for n in range(20)))),
    "nobody": view(primary()),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as made:
        yield made


def open_page(page: Browser, server: Server) -> None:
    page.open("about:blank")
    page.messages()
    page.open(f"http://127.0.0.1:{port(server)}/#{TOKEN}")
    page.wait("document.getElementById('live').textContent.startsWith('Live')")


@pytest.mark.parametrize("name", VIEWS)
def test_no_complaint_and_no_sideways_scrolling(page: Browser, name: str) -> None:
    with served(Access(frozenset(), token=TOKEN), VIEWS[name]) as server:
        for width in WIDTHS:
            page.size(width, 900)
            open_page(page, server)
            assert page.run("return document.documentElement.scrollWidth") <= width
            wide = page.run(WIDE)
            assert wide == []
            assert page.messages() == []


BARS = """
    return [...document.querySelectorAll('.bar')].map(bar => ({
        shown: bar.parentElement.querySelector('b').textContent, label: bar.getAttribute('aria-label'),
        share: [...bar.querySelectorAll('rect')].map(part => parseFloat(part.getAttribute('width')))
            .reduce((a, b) => a + b),
    }))
"""
AXIS_END = "return parseFloat(document.querySelector('#axis').lastElementChild.textContent)"


def test_the_parts_of_a_bar_are_the_commit_shown(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        page.size(1280, 900)
        open_page(page, server)
        for scale, longest in (("whole", 192.8), ("beyond", 12.7)):
            page.run(f"document.querySelector('input[value={scale}]').click()")
            top, bars = page.run(AXIS_END), page.run(BARS)
            assert len(bars) == 4
            for bar in bars:
                shown = float(bar["shown"].removesuffix(" ms"))
                assert bar["share"] / 100 * top == pytest.approx(shown, abs=0.1)
                assert bar["label"].startswith(
                    f"COMMIT {bar['shown']}: local check 0.1 ms, way to the primary"
                )
            assert max(float(bar["shown"].removesuffix(" ms")) for bar in bars) == longest
        text = page.run("return document.getElementById('zone-rows').textContent")
        assert "10.1 ms parked at the primary" in text and "the distance; psp adds" in text


def test_the_slowest_hundredth_has_a_mark_on_the_bar(page: Browser) -> None:
    mark = "return [...document.querySelectorAll('.bar .p99')].map(e => parseFloat(e.getAttribute('x1')))"
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        page.size(1280, 900)
        open_page(page, server)
        top = page.run(AXIS_END)
        assert page.run(mark) == pytest.approx(
            [rtt * 120 / top for rtt in (30.1, 31.0, 90.3, 190.2)], abs=0.01
        )
        assert "p99 228.2 ms" in page.run("return document.getElementById('zone-rows').textContent")
        page.run("document.querySelector('input[value=beyond]').click()")
        assert page.run(mark) == []


def test_the_words_of_a_statement_and_the_free_space(page: Browser) -> None:
    words = "UPDATE item SET stock = stock - $1 <b>"
    lost = conflict("a", 30, statement=words)
    made = view(primary(member("a"), conflicts=[lost]), semi_primary("a", conflicts=[lost]))
    with served(Access(frozenset(), token=TOKEN), made) as server:
        open_page(page, server)
        assert page.run("return document.querySelector('#keys p code').textContent") == words
        assert "Free on the disk81 GiB" in page.run("return document.getElementById('log-facts').textContent")


def test_many_keys_do_not_push_the_rest_away(page: Browser) -> None:
    keys = [conflict("a", 90 - n, key=f"(id)=({n})", rank=n + 1) for n in range(20)]
    made = view(primary(member("a"), conflicts=keys), semi_primary("a"))
    with served(Access(frozenset(), token=TOKEN), made) as server:
        page.size(1280, 900)
        open_page(page, server)
        assert page.run("return document.querySelectorAll('#keys > li').length") == 5
        assert page.run("return document.querySelector('#more-keys summary').textContent") == "15 more"
        page.run("document.querySelector('#more-keys details').open = true")
        looks = iter([replace(made, taken_at=NOW + timedelta(seconds=1))])
        server.feed._look = looks.__next__
        server.feed.step()
        page.wait("document.getElementById('live').textContent.includes('03:04:06')")
        assert page.run("return document.querySelector('#more-keys details').open") is True


def test_jobs_and_the_log(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        looks = iter([replace(busy(), taken_at=NOW + timedelta(seconds=60))])
        server.feed._look = looks.__next__
        server.feed.step()
        open_page(page, server)
        told = page.run("return document.getElementById('jobs').textContent")
        assert (
            "item_name_idx" in told
            and "done at lisbon, madrid, newyork" in told
            and "running at tokyo" in told
        )
        label = page.run("return document.querySelector('.chart').getAttribute('aria-label')")
        assert label == "Size of the log from 03:04:05 to 03:05:05: at most 217 MiB, now 217 MiB"


def test_a_key_is_text(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), a_view()) as server:
        page.size(1280, 900)
        open_page(page, server)
        assert "<img src=x onerror=alert(1)>" in page.run(
            "return document.getElementById('keys').textContent"
        )
        assert page.run("return document.querySelectorAll('img').length") == 0


def test_without_the_token_there_is_nothing(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        page.open("about:blank")
        page.open(f"http://127.0.0.1:{port(server)}/")
        page.wait("document.getElementById('answer').textContent.includes('no right')")
        assert "lisbon" not in page.run("return document.body.textContent")


def test_every_control_by_keyboard(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        page.size(1280, 900)
        open_page(page, server)
        controls = (
            "[...document.querySelectorAll('a, button, summary, input:checked')]"
            ".filter(e => e.checkVisibility())"
        )
        wanted = page.run(f"return {controls}.length")
        reached = "(window.reached ??= new Set()).add(document.activeElement)"
        for _ in range(wanted + 3):
            page.press(TAB)
            page.run(reached)
        assert page.run(f"return {controls}.filter(e => !window.reached.has(e)).map(e => e.outerHTML)") == []


def test_a_look_keeps_focus_and_what_is_open(page: Browser) -> None:
    with served(Access(frozenset(), token=TOKEN), busy()) as server:
        page.size(1280, 900)
        open_page(page, server)
        page.run("document.querySelector('summary').focus(); document.querySelector('details').open = true")
        looks = iter([replace(busy(), hot_keys=())])
        server.feed._look = looks.__next__
        server.feed.step()
        page.wait("document.getElementById('keys').textContent.includes('Nothing was lost')")
        assert page.run("return document.activeElement.tagName") == "SUMMARY"
        assert page.run("return document.querySelector('details').open") is True


def test_texts_can_be_read(page: Browser) -> None:
    """A contrast of 4.5 at least, in both themes and all states."""
    script = Path(__file__).with_name("contrast.js").read_text()
    try:
        for theme in ("light", "dark"):
            page.theme(theme)
            for name in ("busy", "blocked", "plain"):
                with served(Access(frozenset(), token=TOKEN), VIEWS[name]) as server:
                    open_page(page, server)
                    assert page.run(script) == [], (theme, name)
    finally:
        page.theme("light")
