"""Which applications, how their migrations are fetched and run, and where their histories are noted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PLACE = Path(__file__).with_name("applications")


@dataclass(frozen=True)
class Edit:
    """What a user has to change in the application's own files: in all that match, one text for another."""

    files: str  # below site-packages
    before: str
    after: str


@dataclass(frozen=True)
class Application:
    """`up` and `down` run in the folder of the installation, which knows the words in braces."""

    name: str
    packages: tuple[str, ...]  # of PyPI; none: nothing is to be installed
    up: tuple[str, ...]
    versions: str  # how many migrations are noted as done
    least: int  # no fewer
    tables: tuple[str, ...]  # written by others as soon as they are there
    down: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    settings: tuple[str, ...] = ()  # of the role that migrates
    written: tuple[str, ...] = ()  # columns that it always writes, though they may be NULL until a migration


_DJANGO = "SELECT count(*) FROM django_migrations"
_SQLALCHEMY = "postgresql+psycopg2://{user}@{host}:{port}/{dbname}"
_MLFLOW = """
import sys
from mlflow.store.db.utils import create_sqlalchemy_engine, _initialize_tables
_initialize_tables(create_sqlalchemy_engine(sys.argv[1]))
"""
_FLYWAY = (
    "mvn", "-q", "-f", f"{PLACE}/conductor.xml", "flyway:migrate", "-Dflyway.url=jdbc:postgresql://{host}:{port}/{dbname}",
    "-Dflyway.user={user}", "-Dflyway.baselineOnMigrate=true", "-Dflyway.baselineVersion=0",
)  # fmt: skip

APPLICATIONS = (
    Application(
        "wagtail",
        ("wagtail==8.0.1", "psycopg[binary]==3.3.9"),
        ("bin/python", "-m", "django", "migrate", "--no-input", "--skip-checks"),
        _DJANGO,
        150,
        ("auth_user", "wagtailcore_site", "taggit_tag"),
        environment={"DJANGO_SETTINGS_MODULE": "wagtail_settings", "PYTHONPATH": str(PLACE)},
    ),
    Application(
        "airflow",
        ("apache-airflow-core==3.3.2", "psycopg2-binary==2.9.13", "asyncpg==0.32.0"),
        ("bin/alembic", "-c", "{packages}/airflow/alembic.ini", "upgrade", "head"),
        "SELECT count(*) FROM alembic_version",
        1,
        ("variable", "connection"),
        environment={"AIRFLOW_HOME": "{folder}/home", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": _SQLALCHEMY},
        # One migration UPDATEs those that are NULL, and says SET NOT NULL some statements later.
        written=("key", "val", "is_encrypted", "is_extra_encrypted"),
    ),
    Application(
        "mlflow",
        ("mlflow-skinny==3.17.2", "sqlalchemy==2.1.9", "alembic==1.20.1", "psycopg2-binary==2.9.13"),
        ("bin/python", "-c", _MLFLOW, _SQLALCHEMY),
        "SELECT count(*) FROM alembic_version",
        1,
        ("experiments", "runs"),
        # One migration takes it for the key of the runs that it reads.
        written=("experiment_id",),
    ),
    Application(
        "prefect",
        ("prefect==3.8.8",),
        ("bin/prefect", "server", "database", "upgrade", "-y"),
        "SELECT count(*) FROM alembic_version",
        1,
        ("flow", "flow_run", "task_run"),
        ("bin/prefect", "server", "database", "downgrade", "-y", "-r", "-10"),
        {
            "PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://{user}@{host}:{port}/{dbname}",
            "PREFECT_HOME": "{folder}/home",
        },
        (
            Edit(
                "prefect/server/database/_migrations/versions/postgresql/*.py",
                "CREATE UNIQUE INDEX CONCURRENTLY",
                "CREATE UNIQUE INDEX",
            ),
        ),
    ),
    Application(
        "conductor",
        (),
        _FLYWAY,
        "SELECT count(*) FROM flyway_schema_history WHERE success",
        9,
        ("meta_task_def", "queue"),
    ),
    Application(
        "litellm",
        ("litellm-proxy-extras==0.4.110", "psycopg[binary]==3.3.9"),
        ("bin/python", f"{PLACE}/prisma.py", "{packages}/litellm_proxy_extras/migrations"),
        "SELECT count(*) FROM _prisma_migrations WHERE finished_at IS NOT NULL",
        200,
        ("LiteLLM_EndUserTable", "LiteLLM_BudgetTable"),
    ),
    Application(
        "shop",
        (),
        ("ruby", f"{PLACE}/shop.rb", "up"),
        "SELECT count(*) FROM schema_migrations",
        11,
        ("shops", "items"),
        ("ruby", f"{PLACE}/shop.rb", "down"),
        settings=("psp.add_keys = on",),
    ),
)  # fmt: skip
