"""psp_client.django: units of work in three threads. Arguments: as those of django_main.py."""

import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from django.conf import settings  # type: ignore[import-untyped]
from psp_client import Backoff

url = urlsplit(f"postgresql://{sys.argv[1]}")
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": url.hostname,
            "PORT": url.port,
            "NAME": url.path[1:],
            "USER": url.username,
            "CONN_MAX_AGE": None,
            "OPTIONS": {"application_name": "retried"},
        }
    }
)

from django.db import connection, transaction  # type: ignore[import-untyped] # noqa: E402 (after the settings)
from psp_client.django import retried  # noqa: E402

told: list[str] = []


@retried(backoff=Backoff(attempts=200, first_s=0.01, longest_s=0.3))
def work(name: str) -> None:
    transaction.on_commit(lambda: told.append(name))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE counter SET value = value + 1")
        cursor.execute("INSERT INTO unit (name) VALUES (%s)", [name])


names = [f"{sys.argv[3]}{number}" for number in range(int(sys.argv[2]))]
with ThreadPoolExecutor(3) as threads:
    list(threads.map(work, names))
assert sorted(told) == sorted(names), told
