"""psp_client's own clients, in either mode: units of work in three threads, or in three tasks.

Arguments: `sync` or `async`, then those of sqlalchemy_main.py.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psp_client
from psp_client import AsyncClient, Backoff, Client, Settings
from psycopg import AsyncConnection, Connection, OperationalError

DSN = f"postgresql://{sys.argv[2]}"
PATIENT = Settings(backoff=Backoff(attempts=200, first_s=0.01, longest_s=0.3))
COUNT = "UPDATE counter SET value = value + 1"
ADD = "INSERT INTO unit (name) VALUES (%s)"


def connected() -> Client:
    """The session may be ended before it is a client's."""
    while True:
        try:
            return psp_client.connect(DSN, PATIENT, application_name="retried")
        except OperationalError as error:
            print(f"connecting again: {error}", file=sys.stderr)


def run(names: list[str]) -> None:
    with connected() as client:
        for name in names:

            def work(connection: Connection[Any], name: str = name) -> None:
                connection.execute(COUNT)
                connection.execute(ADD, (name,))

            client.run(work)


async def connected_async() -> AsyncClient:
    while True:
        try:
            return await psp_client.connect_async(DSN, PATIENT, application_name="retried")
        except OperationalError as error:
            print(f"connecting again: {error}", file=sys.stderr)


async def run_async(names: list[str]) -> None:
    async with await connected_async() as client:
        for name in names:

            async def work(connection: AsyncConnection[Any], name: str = name) -> None:
                await connection.execute(COUNT)
                await connection.execute(ADD, (name,))

            await client.run(work)


async def in_tasks(shares: list[list[str]]) -> None:
    await asyncio.gather(*(run_async(share) for share in shares))


names = [f"{sys.argv[4]}{number}" for number in range(int(sys.argv[3]))]
shares = [names[i::3] for i in range(3)]
if sys.argv[1] == "async":
    asyncio.run(in_tasks(shares))
else:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(run, shares))
