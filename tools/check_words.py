"""House English: words that are hard to read are reported, each with its remedy.

It reads comments, messages, documents and SQL. A word inside of an identifier does not count.
"""

import re
import sys
from pathlib import Path

from source_files import ROOT, under

REMEDIES = {
    "anew": "again, a new ..., or restart",
    "whoever": "name it: the client that, a session which, each role that",
    "whatever": "each, every, any; or: ... does not matter",
    "whichever": "any, either",
    "wherever": "everywhere, in any place, in all ...",
    "whom": "say who does what: which role runs it",
    "thereby": "so, by this",
    "therein": "in it, in this",
    "thereof": "of it",
    "thereupon": "then",
    "whereby": "by which, so that",
    "wherein": "in which",
    "whereupon": "then",
    "herein": "here, in this file",
    "hereby": "say what happens",
    "hitherto": "so far",
    "henceforth": "from now on",
    "hence": "so, therefore",
    "thus": "so",
    "upon": "on, when",
    "shall": "must, or will",
    "lest": "so that ... not",
    "albeit": "although",
    "notwithstanding": "although, in spite of",
    "insofar": "as far as",
    "aforementioned": "name it",
    "forthwith": "at once",
}
HARD = re.compile(rf"(?<![\w/.-])(?:{'|'.join(REMEDIES)})(?![\w(-])", re.IGNORECASE)
SELF = Path("tools/check_words.py")
SUFFIXES = (
    ".c",
    ".cc",
    ".cmake",
    ".h",
    ".j2",
    ".lua",
    ".md",
    ".proto",
    ".py",
    ".service",
    ".sh",
    ".sql",
    ".txt",
    ".yaml",
)


def files() -> list[Path]:
    folders = tuple(path.name for path in ROOT.iterdir() if path.is_dir())
    top = [path.relative_to(ROOT) for path in [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("*.txt")]]
    return [*top, *under(folders, *SUFFIXES)]


def main() -> int:
    found = 0
    for path in files():
        if path == SELF:
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            for match in HARD.finditer(line):
                found += 1
                print(f"{path}:{number}: {match[0]!r}. Remedy: {REMEDIES[match[0].lower()]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
