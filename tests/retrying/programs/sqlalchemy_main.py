"""SQLAlchemy: adds one to a counter repeatedly. Arguments: the URL's part behind the driver; how often."""

import sys

from retrying import run  # type: ignore[import-not-found]
from sqlalchemy import create_engine, text

engine = create_engine(f"postgresql+psycopg://{sys.argv[1]}", connect_args={"application_name": "retried"})
for _ in range(int(sys.argv[2])):
    run(engine, lambda session: session.execute(text("UPDATE counter SET value = value + 1")), attempts=200)
