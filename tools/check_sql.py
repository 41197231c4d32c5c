"""SQL is code and lives in .sql files that psql and people can read; C++ holds no more than short statements.

Looks at each string literal outside tests (adjacent ones are one) for the beginning of a statement. One that
fits in a line may stand where it is used; a longer one belongs under sql/.
"""

import re
import sys
from collections.abc import Iterator

from source_files import ROOT, cpp_files, is_test

STATEMENT_LENGTH_MAX = 100
_PLAIN = r'"(?:[^"\\\n]|\\.)*"'
STRING = re.compile(
    rf'R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|(?P<plain>{_PLAIN}(?:\s*{_PLAIN})*)', re.DOTALL
)
STATEMENT = re.compile(
    r"^\s*(SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\b|DELETE\s+FROM\s|MERGE\s+INTO\s|WITH\s+\w+\s+AS\s*\(|"
    r"TRUNCATE\s|COPY\s+\S+|CREATE\s+(TABLE|SCHEMA|FUNCTION|INDEX)\b|ALTER\s+\w+\s)"
)


def without_comments(text: str) -> str:
    """The text with // comments blanked, so that an apostrophe or a quote in prose opens no literal."""
    return re.sub(r"(?m)^\s*//.*$", "", text)


def check() -> Iterator[str]:
    for path in cpp_files():
        if is_test(path):
            continue
        text = without_comments((ROOT / path).read_text(encoding="utf-8"))
        for match in STRING.finditer(text):
            literal = match["raw"] or re.sub(r'"\s*"', "", match["plain"] or "").strip('"')
            if STATEMENT.match(literal) and len(literal) > STATEMENT_LENGTH_MAX:
                yield (
                    f'{path}: "{" ".join(literal.split())[:60]}" is SQL in C++. '
                    "Remedy: put it in a .sql file under sql/ and embed it (cmake/EmbedSql.cmake)."
                )


def main() -> int:
    problems = list(check())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
