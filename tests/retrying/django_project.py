"""A Django project in the tests' own process: settings, views and URLs. Databases are told by `use`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "psp_client.django.RetryMiddleware",
]

views: dict[str, Callable[..., Any]] = {}
"""What the only URL calls, by its last part; tests put their views here."""


def ports(*dsns: str) -> str:
    """Of several semi-primaries, as libpq takes them."""
    return ",".join(str(conninfo_to_dict(dsn)["port"]) for dsn in dsns)


def use(dsn: str, *others: str) -> None:
    """Once in a process. `default` has ATOMIC_REQUESTS, `other` is the same database without.

    `several`: that or those of the others, as libpq chooses.
    """
    import django  # type: ignore[import-untyped]

    found = conninfo_to_dict(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": found["host"],
        "PORT": found["port"],
        "NAME": found["dbname"],
        "USER": found["user"],
    }
    settings.configure(
        SECRET_KEY="of a test",
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=MIDDLEWARE,
        INSTALLED_APPS=["django.contrib.sessions", "django.contrib.messages"],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        DATABASES={
            "default": {**database, "ATOMIC_REQUESTS": True},
            "other": database,
            "several": {
                **database,
                "HOST": ",".join([str(found["host"])] * (1 + len(others))),
                "PORT": ports(dsn, *others),
                "OPTIONS": {"application_name": "several"},
            },
        },
        FILE_UPLOAD_HANDLERS=["django.core.files.uploadhandler.TemporaryFileUploadHandler"],
    )
    django.setup()


def call(request: Any, name: str) -> Any:
    return views[name](request)


def __getattr__(name: str) -> Any:
    """`urlpatterns`: URLs can be made only after the settings."""
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.urls import path  # type: ignore[import-untyped]

    return [path("<str:name>", call)]
