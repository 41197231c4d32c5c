"""Settings of a Django project with all of Wagtail. PGHOST and its like tell where the database is."""

import os

SECRET_KEY = "of a test"
INSTALLED_APPS = [
    *(f"wagtail.contrib.{app}" for app in ("forms", "redirects", "search_promotions", "settings")),
    *(f"wagtail.{app}" for app in ("embeds", "sites", "users", "snippets", "documents", "images")),
    *(f"wagtail.{app}" for app in ("search", "admin", "locales")),
    *("wagtail", "modelcluster", "taggit"),
    *(
        f"django.contrib.{app}"
        for app in ("admin", "auth", "contenttypes", "sessions", "messages", "postgres")
    ),
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
WAGTAIL_SITE_NAME = WAGTAILADMIN_BASE_URL = "http://localhost"
STATIC_URL = "/static/"
