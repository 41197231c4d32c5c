"""Django: units of work. Arguments: the URL's part behind the driver, how many, how their names begin."""

import sys
from functools import partial
from urllib.parse import urlsplit

from django.conf import settings  # type: ignore[import-untyped]

url = urlsplit(f"postgresql://{sys.argv[1]}")
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": url.hostname,
            "PORT": url.port,
            "NAME": url.path[1:],
            "USER": url.username,
            "OPTIONS": {"application_name": "retried"},
        }
    }
)

from django.db import connection  # type: ignore[import-untyped] # noqa: E402 (after the settings)
from retrying import run  # type: ignore[import-not-found] # noqa: E402


def work(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE counter SET value = value + 1")
        cursor.execute("INSERT INTO unit (name) VALUES (%s)", [name])


for number in range(int(sys.argv[2])):
    run(partial(work, f"{sys.argv[3]}{number}"), attempts=200)
