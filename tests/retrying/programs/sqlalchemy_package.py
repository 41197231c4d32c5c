"""psp_client.sqlalchemy: units of work in three threads. Arguments: as those of sqlalchemy_main.py."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from psp_client import Backoff
from psp_client.sqlalchemy import run
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, sessionmaker

PATIENT = Backoff(attempts=200, first_s=0.01, longest_s=0.3)


def work(name: str, session: Session) -> None:
    session.execute(text("UPDATE counter SET value = value + 1"))
    session.execute(text("INSERT INTO unit (name) VALUES (:name)"), {"name": name})


engine = create_engine(f"postgresql+psycopg://{sys.argv[1]}", connect_args={"application_name": "retried"})
sessions = sessionmaker(engine)
names = [f"{sys.argv[3]}{number}" for number in range(int(sys.argv[2]))]
with ThreadPoolExecutor(3) as threads:
    list(threads.map(lambda name: run(sessions, partial(work, name), backoff=PATIENT), names))
