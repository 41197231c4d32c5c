"""What results/peers.json has of the measurements. Pure."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.results import Target

MEANS = ("tps", "p50_ms", "p95_ms", "p99_ms")
SUMS = ("transactions", "aborts", "gave_up")
PSP, GALERA = "psp, one by one", "Galera, one by one"


def form_result(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of a form's rounds; counts are added up. Each round counts as its transactions do."""
    transactions = sum(one["transactions"] for one in rounds)
    parts = rounds[0]["cpu_ms_per_transaction"]
    cpu_ms = {
        part: sum(one["cpu_ms_per_transaction"][part] * one["transactions"] for one in rounds) / transactions
        for part in parts
    }
    return {
        "tps": mean(one["tps"] for one in rounds),
        "transactions": transactions,
        "cpu_ms_per_transaction": cpu_ms | {"all": sum(cpu_ms.values())},
        "zones": [_zone(zones) for zones in zip(*(one["zones"] for one in rounds), strict=True)],
        "tps_of_rounds": [one["tps"] for one in rounds],
        "cpu_ms_of_rounds": [sum(one["cpu_ms_per_transaction"].values()) for one in rounds],
    }


def _zone(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(one[name] for one in rounds) for name in SUMS}
    means = {name: mean(one[name] for one in rounds) for name in MEANS}
    attempts = sums["transactions"] + sums["aborts"]
    return {"zone": rounds[0]["zone"], **means, **sums, "abort_rate": sums["aborts"] / max(attempts, 1)}


def targets(forms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """CPU of all servers for a transaction: psp's below Galera's, with the same statements."""
    cpu_ms = {name: forms[name]["cpu_ms_per_transaction"]["all"] for name in (PSP, GALERA)}
    return {
        "cpu_ms_to_galera": Target(1.0, "at most").against(cpu_ms[PSP] / cpu_ms[GALERA]) | {"cpu_ms": cpu_ms}
    }
