"""`make bench-overhead-observed`: what it costs to be seen, as CPU time for each transaction.

TPC-C without distance, by turns: with nobody who looks, with everybody who can (metrics, psp top and psp
console each second), and with nobody again, which shows how much two equal measurements differ. With
`--without FOLDER` also with the daemons of that folder, such as a build without time points.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from psp.cluster import growth
from psp.cluster.local import LocalCluster, Options, Zone
from psp.output import PspError, console, table

from benchmarks.overhead.__main__ import backends
from benchmarks.overhead.looking import looking
from benchmarks.overhead.rounds import WARMUP_S, System, one_round, psp_system
from benchmarks.overhead.targets import PSP_PARTS
from benchmarks.results import RESULTS, Target, write_json
from benchmarks.steps import Steps, exit_code
from benchmarks.tpcc import runner
from benchmarks.tpcc.runner import Load, LoadError, Scale

ALONE, SEEN, AGAIN, WITHOUT = "alone", "seen", "again", "without"
TARGET = Target(1.01, "at most")
PARTS = {"all": PSP_PARTS, "daemons": ("sp_daemon", "primary_daemon")}
"""Where it is counted. Time points cost the daemons alone, whose CPU time differs less from turn to turn."""


@dataclass(frozen=True)
class Turn:
    """A system, and who looks at it meanwhile."""

    name: str
    system: System
    look: Callable[[], Any]


def ratios(cpu_ms: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """Each kind of turn to the two of its round in which nobody looks; `again` to `alone`.

    The median, and the quartiles around it.
    """
    nobody = [(one + other) / 2 for one, other in zip(cpu_ms[ALONE], cpu_ms[AGAIN], strict=True)]
    found = {}
    for name, values in cpu_ms.items():
        if name == ALONE:
            continue
        base = cpu_ms[ALONE] if name == AGAIN else nobody
        pairs = sorted(value / other for value, other in zip(values, base, strict=True))
        quarter = len(pairs) // 4
        found[name] = {"ratio": median(pairs), "quartiles": [pairs[quarter], pairs[-1 - quarter]]}
    return found


@contextmanager
def _daemons_of(folder: Path | None) -> Iterator[None]:
    before = os.environ.get("PSP_BIN")
    if folder is not None:
        os.environ["PSP_BIN"] = str(folder.resolve())
    yield
    if folder is not None:
        os.environ.pop("PSP_BIN")
        if before is not None:
            os.environ["PSP_BIN"] = before


def _cluster(stack: ExitStack, scale: Scale, daemons: Path | None, steps: Steps) -> LocalCluster:
    with _daemons_of(daemons):
        options = Options(database="tpcc", relay=False)
        cluster = stack.enter_context(LocalCluster.temporary([Zone("here")], options))
        with steps.step("Loading TPC-C"):
            runner.prepare(cluster.sps[0].dsn, scale)
        with steps.step("Putting the database under psp"):
            growth.adopt(cluster, steps.progress)
    return cluster


def run(options: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Everything, from loading to the result."""
    scale = Scale(options.warehouses)
    load = Load(options.threads, options.seconds, scale)
    cpu_ms: dict[str, dict[str, list[float]]] = {where: {} for where in PARTS}
    with ExitStack() as stack:
        cluster = _cluster(stack, scale, None, steps)
        psp = psp_system("psp", cluster)
        turns = [Turn(ALONE, psp, nullcontext), Turn(SEEN, psp, lambda: looking(cluster))]
        turns.append(Turn(AGAIN, psp, nullcontext))
        if options.without is not None:
            other = _cluster(stack, scale, options.without, steps)
            turns.append(Turn(WITHOUT, psp_system(WITHOUT, other), nullcontext))
        for system in {turn.system.name: turn.system for turn in turns}.values():
            runner.run(system.dsn, Load(options.threads, WARMUP_S, scale))
        for number in range(options.rounds):
            # The other way round each second time: what changes meanwhile, such as growth, hits all alike.
            for turn in turns if number % 2 == 0 else reversed(turns):
                with steps.step(f"round {number + 1} of {options.rounds}, {turn.name}"), turn.look():
                    report, cpu_s = one_round(turn.system, load, backends(turn.system.dsn))
                if report["errors"]:
                    raise LoadError(f"{report['errors']} transactions failed: {report['errors_by_sqlstate']}")
                for where, parts in PARTS.items():
                    used_ms = 1000 * sum(cpu_s[part] for part in parts)
                    cpu_ms[where].setdefault(turn.name, []).append(used_ms / report["transactions"])
    found = {where: ratios(used) for where, used in cpu_ms.items()}
    return {
        "load": {"benchmark": "TPC-C", "warehouses": options.warehouses, "threads": options.threads,
                 "seconds": options.seconds, "rounds": options.rounds},
        "cpu_ms_per_transaction": cpu_ms,
        "ratios": found,
        "targets": {"seen_ratio": TARGET.against(found["all"][SEEN]["ratio"])},
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """2: it could not run; 130: interrupted. A missed target is a result, not an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead.observed", description=__doc__)
    parser.add_argument("--seconds", type=int, default=6, help="of each turn (6)")
    parser.add_argument("--rounds", type=int, default=12, help="of all turns (12)")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--warehouses", type=int, default=2)
    parser.add_argument("--without", type=Path, help="a folder with other daemons")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for observed.json")
    options = parser.parse_args(arguments)

    def work() -> int:
        result = run(options, Steps())
        rows = [
            (where, name, f"{one['ratio']:.3f}", *(f"{quartile:.3f}" for quartile in one["quartiles"]))
            for where, found in result["ratios"].items()
            for name, one in found.items()
        ]
        columns = ("CPU of", "turn", "ratio", "first quartile", "third quartile")
        console.print(
            table("CPU per transaction, to that of the same round when nobody looks", columns, rows)
        )
        write_json(result, options.results / "observed.json")
        return 0

    return exit_code(work, PspError, LoadError)


if __name__ == "__main__":
    sys.exit(main())
