"""What the benchmarks of Multi-Record Values share as programs: options, errors, results."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psp.output import PspError, console, table
from psp.servers.pgserver import PgServer

from benchmarks.mrv import heatmap, server
from benchmarks.mrv.pgbench import PgbenchError
from benchmarks.results import RESULTS, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc.runner import LoadError

ISOLATIONS = ("read committed", "repeatable read")
CLIENTS_MAX = 1024


@dataclass(frozen=True)
class Benchmark:
    """One of them. Results go to NAME.json and NAME.png; `size` is the grid's second axis, beside clients.

    measure(server, options, steps) returns an object with `load`, `grid`, `beside_the_grid` (more rows) and
    `targets`.
    """

    name: str
    size: str
    size_label: str
    measure: Callable[[PgServer, argparse.Namespace, Steps], dict[str, Any]]


def parser(module: str, doc: str | None, *, seconds: int, rounds: int, delay_ms: float) -> Any:
    """The options that all of them have; `clients` has no default yet."""
    found = argparse.ArgumentParser(prog=f"python -m {module}", description=doc)
    found.add_argument("--seconds", type=int, default=seconds, help=f"of each round ({seconds})")
    found.add_argument(
        "--rounds",
        type=int,
        default=rounds,
        help=f"of each form and point; their median counts ({rounds})",
    )
    found.add_argument(
        "--commit-delay-ms", type=_delay, default=delay_ms, metavar="MS",
        help="how long each commit of the grid waits besides for this machine's disk, 0 to 100"
        f" ({delay_ms:g}, a slow disk or a zone nearby): commit_delay of the server",
    )  # fmt: skip
    found.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    return found


def counts(text: str) -> list[int]:
    """An option's value: 1,8,32."""
    found = sorted({int(count) for count in text.split(",")})
    if found[0] < 1 or found[-1] > CLIENTS_MAX:
        raise ValueError
    return found


def _delay(text: str) -> float:
    delay_ms = float(text)
    if not 0 <= delay_ms <= 100:  # commit_delay's own limit
        raise ValueError
    return delay_ms


def run(benchmark: Benchmark, options: argparse.Namespace) -> int:
    """Measures on a throw-away server; returns the exit code of `finish`."""

    def measure(steps: Steps) -> dict[str, Any]:
        with server.throw_away_server(max(options.clients)) as running:
            return benchmark.measure(running, options, steps)

    return finish(benchmark.name, benchmark.size, benchmark.size_label, options.results, measure)


def finish(
    name: str, size: str, size_label: str, results: Path, measure: Callable[[Steps], dict[str, Any]]
) -> int:
    """Measures, shows, writes. 2: it could not run; 130: interrupted. A missed target is no error."""

    def work() -> int:
        result = measure(Steps())
        show(result, size)
        path = results / f"{name}.json"
        write_json(result, path)
        picture = path.with_suffix(".png")
        heatmap.draw(result["grid"], picture, size, size_label)
        console.print(f"Written: {path}, {picture}")
        return 0

    return exit_code(work, PspError, PgbenchError, LoadError)


def show(result: Mapping[str, Any], size: str) -> None:
    """A line for each point and form, and the targets."""
    rows = [
        (found.get("work"), found["isolation"], found["clients"], found[size], found["records"],
         f"{found['commit_delay_ms']:g}", form, measured["tps"], measured["latency_ms"],
         f"{measured['abort_rate']:.1%}", _times(found["ratios"].get(form, {}).get("throughput")),
         f"{measured['cpu_busy']:.0%}", f"{measured['lock_waiters']:.1f}")
        for found in [*result["grid"], *result["beside_the_grid"]]
        for form, measured in found["forms"].items()
    ]  # fmt: skip
    title = "delay: how long commits wait, ms; cpu: the whole machine's; waiting: for locks, on average"
    columns = ("work", "isolation", "n", size, "records", "delay", "form", "tps", "ms", "aborts", "ratio",
               "cpu", "waiting")  # fmt: skip
    console.print(table(title, columns, rows))
    lines = [
        (name, _times(found["measured"]), f"{found['kind']} {found['target']}", found["holds"],
         ", ".join(f"{form}: {ratio:.2f}" for form, ratio in found.get("by_form", {}).items()))
        for name, found in result["targets"].items()
    ]  # fmt: skip
    console.print(table("Targets", ("name", "measured", "target", "holds", "by form"), lines))


def _times(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.3g}"


def common_load(options: argparse.Namespace, **more: Sequence[int] | str | float) -> dict[str, Any]:
    """The entry `load` of the results."""
    return {
        "seconds": options.seconds,
        "rounds": options.rounds,
        "commit_delay_ms": options.commit_delay_ms,
        "commit_delay_by": "the server's commit_delay, commit_siblings = 0; fsync = on",
        **more,
    }
