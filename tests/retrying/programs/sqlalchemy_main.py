"""SQLAlchemy: units of work. Arguments: the URL's part behind the driver, how many, how names begin."""

import sys
from functools import partial

from retrying import run  # type: ignore[import-not-found]
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session


def work(name: str, session: Session) -> None:
    session.execute(text("UPDATE counter SET value = value + 1"))
    session.execute(text("INSERT INTO unit (name) VALUES (:name)"), {"name": name})


engine = create_engine(f"postgresql+psycopg://{sys.argv[1]}", connect_args={"application_name": "retried"})
for number in range(int(sys.argv[2])):
    run(engine, partial(work, f"{sys.argv[3]}{number}"), attempts=200)
