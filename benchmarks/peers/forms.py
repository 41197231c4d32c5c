"""What is compared: a system, and the form of the statements that its clients send."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.tpcc import runner

ONE_BY_ONE = Path(__file__).with_name("one_by_one.lua")
LARGE = runner.SCRIPT


@dataclass(frozen=True)
class Form:
    """One of the measurements that take turns."""

    system: str
    statements: str
    script: Path

    @property
    def name(self) -> str:
        """In the results."""
        return f"{self.system}, {self.statements}"


# MariaDB does not understand the large statements (arrays, RETURNING of an UPDATE).
FORMS = (
    Form("PostgreSQL", "one by one", ONE_BY_ONE),
    Form("Galera", "one by one", ONE_BY_ONE),
    Form("psp", "one by one", ONE_BY_ONE),
    Form("PostgreSQL", "large", LARGE),
    Form("psp", "large", LARGE),
)
# One distant server, cut off from a zone's clients, is not asked what it does.
CUT_FORMS = tuple(form for form in FORMS if form.system != "PostgreSQL" and form.statements == "one by one")
