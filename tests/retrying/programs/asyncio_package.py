"""psp_client.sqlalchemy with asyncpg: units of work in three tasks. Arguments: sqlalchemy_main.py."""

import asyncio
import sys
from functools import partial

from psp_client import Backoff
from psp_client.sqlalchemy import run_async
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

PATIENT = Backoff(attempts=200, first_s=0.01, longest_s=0.3)


async def work(name: str, session: AsyncSession) -> None:
    await session.execute(text("UPDATE counter SET value = value + 1"))
    await session.execute(text("INSERT INTO unit (name) VALUES (:name)"), {"name": name})


async def main() -> None:
    settings = {"server_settings": {"application_name": "retried"}}
    engine = create_async_engine(f"postgresql+asyncpg://{sys.argv[1]}", connect_args=settings)
    names = [f"{sys.argv[3]}{number}" for number in range(int(sys.argv[2]))]

    async def some(first: int) -> None:
        for name in names[first::3]:
            await run_async(engine, partial(work, name), backoff=PATIENT)

    await asyncio.gather(*(some(first) for first in range(3)))
    await engine.dispose()


asyncio.run(main())
