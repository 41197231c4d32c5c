"""Django: adds one to a counter again and again. Arguments: the URL's part behind the driver, how often."""

import sys
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


def add_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE counter SET value = value + 1")


for _ in range(int(sys.argv[2])):
    run(add_one, attempts=200)
