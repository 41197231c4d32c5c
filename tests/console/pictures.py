"""The pictures of docs/operating.md, of a running cluster: `python -m tests.console.pictures docs/console`.

Four zones write; all of them want one row, and the farthest one applies late. Then psp-primary stops.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import psycopg
from psp.cluster import growth
from psp.cluster.configs import PRIMARY
from psp.cluster.local import LocalCluster, Options, SpNode, Zone
from psp.console.cli import open_server
from psp.console.server import Access, Server
from psp.console.stream import Feed
from psp.waiting import wait_until
from psp.watch import gather
from psp.watch.limits import HOT_LOSSES, LAG_MS_MAX
from psp.watch.model import View

from tests.cluster.schema_changes.statements import allow_ddl
from tests.cluster.support import applying_paused, connect, execute, wait_streaming
from tests.console.driver import Browser, browser
from tests.console.test_browser import open_page
from tests.sql.command.test_console import TOKEN
from tests.threads import running_until_left

ZONES = (Zone("lisbon", 30), Zone("madrid", 31), Zone("newyork", 90), Zone("tokyo", 190))
SLOW, LATER = "tokyo", "newyork"
CLIENTS = 2
HOT_SHARE = 0.3
ITEMS = 10_000
HOT_ITEM = 4711
SCHEMA = f"""
CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, stock int NOT NULL);
INSERT INTO item SELECT i, 'item ' || i, 1000000 FROM generate_series(1, {ITEMS}) i;
"""
WAIT_S = 240
LOG_SAMPLES = 7


def sell(sp: SpNode, stop: threading.Event, random: Random) -> None:
    """One client: mostly an item that nobody else wants."""
    with connect(sp, autocommit=True) as connection:
        while not stop.wait(random.uniform(0.02, 0.1)):
            item = HOT_ITEM if random.random() < HOT_SHARE else random.randint(1, ITEMS)
            try:
                connection.execute("UPDATE item SET stock = stock - 1 WHERE id = %s", (item,))
            except psycopg.Error as error:
                if error.sqlstate is None:
                    return


@contextmanager
def busy_console() -> Iterator[tuple[LocalCluster, Server]]:
    with LocalCluster.temporary(ZONES, Options(pg_settings={"shared_buffers": "64MB"})) as cluster:
        execute(cluster.sps[0], SCHEMA)
        growth.adopt(cluster)
        wait_streaming(cluster)
        dsns = [cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps)]
        sources = [gather.Source(dsn) for dsn in dsns]
        feed = Feed(partial(gather.look, sources), 1)
        server = open_server(("127.0.0.1", 0), feed, Access(frozenset(), token=TOKEN))
        clients: list[Callable[[threading.Event], None]] = [
            partial(sell, sp, random=Random(f"{sp.name} {n}")) for sp in cluster.sps for n in range(CLIENTS)
        ]
        threads = [threading.Thread(target=work, daemon=True) for work in (feed.run, server.serve_forever)]
        with running_until_left(*clients):
            for thread in threads:
                thread.start()
            try:
                yield cluster, server
            finally:
                feed.end()
                server.shutdown()
                server.server_close()


def jobs_are_done(view: View | None) -> bool:
    return view is not None and [job for job in view.jobs if set(job.states.values()) == {"done"}] != []


def is_told(view: View | None) -> bool:
    """The hot row with its remedy, who is slow, times of COMMITs."""
    if view is None:
        return False
    zones = {zone.name: zone for zone in view.zones}
    hot = view.hot_within(60)[:1]
    return (
        any(key.remedy and key.losses > HOT_LOSSES and f"({HOT_ITEM})" in (key.key or "") for key in hot)
        and (zones[SLOW].lag_ms or 0) > LAG_MS_MAX
        and all(zone.commit_ms is not None for zone in view.zones)
    )


def take(page: Browser, server: Server, file: Path, theme: str, width: int) -> None:
    page.theme(theme)
    page.size(width, 800)
    open_page(page, server)
    page.size(width, page.run("return document.documentElement.scrollHeight"))
    file.write_bytes(page.picture())
    complaints = page.messages()
    assert complaints == [], complaints


def main(folder: Path) -> None:
    with browser() as page, busy_console() as (cluster, server):
        feed = server.feed
        allow_ddl(cluster.sp("lisbon"))
        execute(
            cluster.sp("lisbon"), "SELECT psp.job('CREATE INDEX CONCURRENTLY item_name_idx ON item (name)')"
        )
        execute(cluster.sp("lisbon"), "SELECT psp.job('VACUUM item')")
        cluster.stop(LATER, "daemon")
        wait_until(f"{LATER} to be missed", lambda: f"{LATER}: stopped" in str(feed._events), WAIT_S)
        cluster.resume()
        wait_until("the jobs to be done", lambda: jobs_are_done(feed._view), WAIT_S)
        wait_until("sizes of the log", lambda: len(feed._log_sizes) >= LOG_SAMPLES, WAIT_S)
        with applying_paused(cluster.sp(SLOW)):
            wait_until("the console to tell all", lambda: is_told(feed._view), WAIT_S)
            take(page, server, folder / "desktop-light.png", "light", 1280)
            take(page, server, folder / "desktop-dark.png", "dark", 1280)
            take(page, server, folder / "phone-light.png", "light", 390)
        cluster.stop(PRIMARY, "daemon")
        wait_until("the console to tell it", lambda: "Nobody can write" in str(feed._events), WAIT_S)
        take(page, server, folder / "desktop-dark-blocked.png", "dark", 1280)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
