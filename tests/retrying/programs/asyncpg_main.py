"""asyncpg: adds one to a counter again and again. Arguments: the URL's part behind the driver, how often."""

import asyncio
import sys

import asyncpg
from retrying import run  # type: ignore[import-not-found]


async def main() -> None:
    url = f"postgresql://{sys.argv[1]}"
    async with asyncpg.create_pool(
        url, min_size=1, max_size=2, server_settings={"application_name": "retried"}
    ) as pool:
        for _ in range(int(sys.argv[2])):
            await run(pool, lambda c: c.execute("UPDATE counter SET value = value + 1"), attempts=200)


asyncio.run(main())
