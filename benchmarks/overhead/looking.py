"""Looks at a cluster as its operators do: all metrics, `psp top` and `psp console`, each second."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from urllib.request import urlopen

from psp.cluster.local import LocalCluster
from psp.console.stream import Feed
from psp.watch import gather

EVERY_S = 1.0


def metrics_urls(cluster: LocalCluster) -> list[str]:
    """Of the primary's daemon and the semi-primaries'."""
    return [
        f"http://127.0.0.1:{node.metrics_port}/metrics" for node in cluster.state.nodes if node.metrics_port
    ]


@contextmanager
def looking(cluster: LocalCluster) -> Iterator[None]:
    """While it is open, Prometheus, psp top and a console look. What fails ends the benchmark."""
    dsns = [cluster.primary_dsn, *(sp.admin_dsn for sp in cluster.sps)]
    console = Feed(partial(gather.look, [gather.Source(dsn) for dsn in dsns]), EVERY_S)
    top = [gather.Source(dsn) for dsn in dsns]
    stop = threading.Event()
    failures: list[Exception] = []

    def scrape(urls: Sequence[str]) -> None:
        while not stop.wait(EVERY_S):
            try:
                for url in urls:
                    with urlopen(url, timeout=10) as answer:
                        answer.read()
                gather.look(top)
            except Exception as error:
                failures.append(error)
                return

    threads = [
        threading.Thread(target=console.run),
        threading.Thread(target=scrape, args=(metrics_urls(cluster),)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        console.end()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
