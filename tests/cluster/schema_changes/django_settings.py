"""Settings of a Django project with the applications that come with Django. PGHOST tells where it works."""

import os

SECRET_KEY = "of a test"
INSTALLED_APPS = [
    f"django.contrib.{app}"
    for app in ("admin", "auth", "contenttypes", "flatpages", "messages", "redirects", "sessions", "sites")
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
    }
}
SITE_ID = 1
SILENCED_SYSTEM_CHECKS = ["admin"]
