"""docs/licences.md tells of all that is linked or shipped, and each project file names psp's licence."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOLD = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8").lower()
TOOLS = {"libgtest-dev", "libgmock-dev"}


def requirements(name: str, found: set[str]) -> set[str]:
    """The installed packages that this one needs, and theirs."""
    try:
        needed = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:  # of another system
        return found
    for line in needed:
        requirement, _, condition = line.partition(";")
        other = re.split(r"[^\w.-]", requirement.strip())[0].lower()
        if other in found or "extra" in condition or "platform" in condition:
            continue
        found.add(other)
        requirements(other, found)
    return found


def is_told(name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", TOLD) is not None


def test_python_libraries_are_told() -> None:
    project = tomllib.loads((ROOT / "schema_tool" / "pyproject.toml").read_text())["project"]
    found = {"psycopg-binary"}
    for line in project["dependencies"]:
        name = re.split(r"[^\w.-]", line)[0].lower()
        found |= requirements(name, {name})
    assert {"jinja2", "markupsafe", "rich", "pygments"} <= found
    assert [name for name in sorted(found) if not is_told(name)] == []


def test_libraries_of_the_daemons_are_told() -> None:
    control = (ROOT / "debian" / "control").read_text()
    [needs] = re.findall(r"^Build-Depends: (.*?)^\n", control, re.MULTILINE | re.DOTALL)
    found = set(re.findall(r"\b(?:lib[\w+-]+|cppzmq)-dev\b", needs)) - TOOLS
    assert "libpqxx-dev" in found
    assert [name for name in sorted(found) if not is_told(name.removesuffix("-dev"))] == []


def test_projects_name_the_licence() -> None:
    assert (ROOT / "LICENSE").read_text().startswith("PostgreSQL License\n\nCopyright (c)")
    for project in (ROOT / "schema_tool", ROOT / "client_libs" / "python"):
        told = tomllib.loads((project / "pyproject.toml").read_text())["project"]["license"]
        assert told == {"text": "PostgreSQL"}
