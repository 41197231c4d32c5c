"""requirements.py [EXTRA…]: what schema_tool needs at run time and for its extras, one a line."""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "schema_tool" / "pyproject.toml"

project = tomllib.loads(PROJECT.read_text())["project"]
extras = [project["optional-dependencies"][name] for name in sys.argv[1:]]
print(*project["dependencies"], *(line for extra in extras for line in extra), sep="\n")
