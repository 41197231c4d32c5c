"""An application with a job queue. Arguments: URL, command, its arguments.

schema: makes the engine's tables.
defer FIRST END: orders FIRST to END - 1.
work [PAUSE_S]: serves orders until it is ended.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector, RetryStrategy  # type: ignore[import-not-found]
from procrastinate.exceptions import ConnectorException  # type: ignore[import-not-found]

URL, COMMAND, *ARGUMENTS = sys.argv[1:]
ROLLED_BACK = ("40001", "40P01", "08006", "25006")  # nothing of the transaction has happened


class Connector(PsycopgConnector):  # type: ignore[misc]
    """Runs a statement again that has lost. procrastinate's worker would end."""

    async def execute_query_async(self, query: str, **arguments: Any) -> None:
        await again(lambda: super(Connector, self).execute_query_async(query, **arguments))

    async def execute_query_one_async(self, query: str, **arguments: Any) -> Any:
        return await again(lambda: super(Connector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: str, **arguments: Any) -> Any:
        return await again(lambda: super(Connector, self).execute_query_all_async(query, **arguments))


async def again(work: Callable[[], Awaitable[Any]]) -> Any:
    """Until it is in, or nobody knows."""
    while True:
        try:
            return await work()
        except ConnectorException as error:
            if getattr(error.__cause__, "sqlstate", None) not in ROLLED_BACK:
                raise
        await asyncio.sleep(0.1)


app = App(connector=Connector(conninfo=URL))


@app.task(name="pay", queue="orders", retry=RetryStrategy(max_attempts=100, wait=1))  # type: ignore[untyped-decorator]
async def pay(number: int) -> None:
    """A job may run twice, so its rows have a key that tells."""
    print(f"pays {number}", flush=True)
    await asyncio.sleep(float(ARGUMENTS[0]) if ARGUMENTS else 0)
    async with await psycopg.AsyncConnection.connect(URL) as connection:
        done = await connection.execute(
            "INSERT INTO unit (name) VALUES (%s) ON CONFLICT DO NOTHING", [f"order {number}"]
        )
        if done.rowcount == 1:
            await connection.execute("UPDATE counter SET value = value + 1")


@app.periodic(cron="*/5 * * * * *")  # type: ignore[untyped-decorator]
@app.task(name="retry_stalled", queueing_lock="retry_stalled", pass_context=True)  # type: ignore[untyped-decorator]
async def retry_stalled(context: Any, timestamp: int) -> None:
    """Jobs whose worker is dead are served by another one, at any semi-primary."""
    del context, timestamp
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=10):
        await app.job_manager.retry_job(job)


async def work() -> None:
    """A worker, and another one in its place where it ends, as systemd does with Restart=always."""
    while True:
        try:
            async with app.open_async():
                await app.run_worker_async(
                    concurrency=4,
                    update_heartbeat_interval=2,
                    stalled_worker_timeout=10,
                    fetch_job_polling_interval=0.5,  # a notification reaches one server only
                )
            return
        except (ConnectorException, psycopg.Error) as error:
            print(f"starts again after {error.__cause__ or error}", flush=True)
            await asyncio.sleep(0.5)


async def main() -> None:
    """The command."""
    if COMMAND == "work":
        await work()
        return
    async with app.open_async():
        if COMMAND == "schema":
            await app.schema_manager.apply_schema_async()
        else:
            for number in range(*map(int, ARGUMENTS)):
                await pay.defer_async(number=number)


asyncio.run(main())
