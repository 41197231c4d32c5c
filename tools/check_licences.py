"""Each source file of the client libraries tells its licence: they are copied into other projects."""

import sys

from source_files import ROOT, under

LICENCE = "SPDX-License-Identifier: PostgreSQL"
COMMENTS = {".lua": "--", ".py": "#"}  # the others: //
SUFFIXES = (".cc", ".go", ".h", ".java", ".js", ".lua", ".py", ".ts")


def main() -> int:
    found = 0
    for path in under(("client_libs",), *SUFFIXES):
        text = (ROOT / path).read_text(encoding="utf-8")
        line = f"{COMMENTS.get(path.suffix, '//')} {LICENCE}"
        if text and text.split("\n", 1)[0] != line:
            found += 1
            print(f"{path}: its first line must be: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
