"""The loop of docs/errors.md commits once, in each way in which COMMIT can end."""

import random
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psp.cluster.local import LocalCluster
from psp.waiting import wait_until

from tests.cluster.support import WAIT_S, connect, execute

ERRORS = Path(__file__).parents[3] / "docs" / "errors.md"
ROUNDS = 15
DISTURBANCES = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'retried'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retried'",
)


def recipe() -> Callable[..., None]:
    found = re.search(r"```python\n(.*?)```", ERRORS.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {"psycopg": psycopg, "random": random, "time": time}
    exec(compile(found[1], str(ERRORS), "exec"), names)
    loop: Callable[..., None] = names["run"]
    return loop


def add_one(connection: psycopg.Connection[Any]) -> None:
    connection.execute("UPDATE counter SET value = value + 1 WHERE name = 'retried'")


def test_conflicts_cancels_and_ended_sessions_lose_and_double_nothing(cluster: LocalCluster) -> None:
    execute(cluster.sps[0], "INSERT INTO counter VALUES ('retried', 0)")
    pair = cluster.sps[:2]
    for sp in pair:
        wait_until("the row", partial(has_row, sp), WAIT_S)
    run = recipe()
    done: list[int] = []

    def work(sp: Any) -> None:
        for _ in range(ROUNDS):
            run(partial(connect, sp, application_name="retried"), add_one, attempts=200)
            done.append(1)

    threads = [threading.Thread(target=work, args=(sp,)) for sp in pair]
    for thread in threads:
        thread.start()
    dice = random.Random(7)
    while any(thread.is_alive() for thread in threads):
        statement = dice.choice(DISTURBANCES)
        for sp in pair:
            execute(sp, statement)
        time.sleep(dice.uniform(0.01, 0.1))
    assert len(done) == 2 * ROUNDS
    wait_until("every increment once", partial(has_value, pair[0], 2 * ROUNDS), WAIT_S)


def has_row(sp: Any) -> bool:
    with connect(sp) as connection:
        return connection.execute("SELECT 1 FROM counter WHERE name = 'retried'").fetchone() is not None


def has_value(sp: Any, value: int) -> bool:
    with connect(sp) as connection:
        row = connection.execute("SELECT value FROM counter WHERE name = 'retried'").fetchone()
        return row == (value,)
