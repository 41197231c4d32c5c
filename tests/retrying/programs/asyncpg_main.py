"""asyncpg: units of work. Arguments: the URL's part behind the driver, how many, how their names begin."""

import asyncio
import sys
from functools import partial
from typing import Any

import asyncpg
from retrying import run  # type: ignore[import-not-found]


async def work(name: str, connection: Any) -> None:
    await connection.execute("UPDATE counter SET value = value + 1")
    await connection.execute("INSERT INTO unit (name) VALUES ($1)", name)


async def main() -> None:
    url = f"postgresql://{sys.argv[1]}"
    async with asyncpg.create_pool(
        url, min_size=1, max_size=2, server_settings={"application_name": "retried"}
    ) as pool:
        for number in range(int(sys.argv[2])):
            await run(pool, partial(work, f"{sys.argv[3]}{number}"), attempts=200)


asyncio.run(main())
