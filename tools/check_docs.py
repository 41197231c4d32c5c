"""What the documents claim must exist: linked and named files, make targets, every setting of the
daemons, the tests that docs/thesis.md and tests/README.md name, the code and the tests of docs/decisions, and
the files and functions of the walks in ARCHITECTURE.md.

The tables of settings in docs/operating.md are made from what the daemons themselves say under
`--print-sample-config`: `make format` writes them (--fix), and lint makes them again and compares.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from source_files import PYTHON_FOLDERS, ROOT, cpp_files, under

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"(?:`|^\s{0,8}|&& )make ([a-z][a-z_-]*)", re.MULTILINE)
PATH = re.compile(r"(?<![\w/.])(?:[\w.-]+/)+[\w.-]+\.(?:py|cc|c|h|sql|j2|lua|proto|sh|md|yaml|json)\b")
SETTING = re.compile(r"# (?P<about>.+)\n# (?P<type>.+); (?P<fallback>.+)\n(?:# )?(?P<name>[a-z0-9_]+):")
OPERATING = ROOT / "docs" / "operating.md"
THESIS = ROOT / "docs" / "thesis.md"
FILE_NAME = re.compile(r"[\w./-]+(?:/|\.(?:py|cc|c|h|sql|j2|lua|proto|md|json|yaml|txt))")
MAP = ROOT / "ARCHITECTURE.md"
MAP_LINES_MAX = 120
WALK_STEPS_MIN = 15
TESTS = ROOT / "tests"
DECISIONS = ROOT / "docs" / "decisions"
TEST_FILES = [ROOT / path for path in [*cpp_files(), *under(PYTHON_FOLDERS, ".py")] if "test" in path.name]
DAEMONS = ("psp-primary", "psp-semi-primary", "psp-mrv")


def documents() -> list[Path]:
    folders = (
        "docs",
        "proto",
        "deploy",
        "benchmarks",
        "client_libs",
        "schema_tool",
        "semi_primary",
        "primary",
        "mrv",
        "sql",
        "tests",
        "writeset",
    )
    return sorted([*ROOT.glob("*.md"), *(p for folder in folders for p in (ROOT / folder).rglob("*.md"))])


def check_links() -> Iterator[str]:
    for document in documents():
        for target in LINK.findall(document.read_text(encoding="utf-8")):
            if "://" not in target and not (document.parent / target).exists():
                yield f"{document.relative_to(ROOT)}: links {target}, which is not there"


def check_paths() -> Iterator[str]:
    """Those that begin with one of the tree's folders; others are the reader's. THESIS has its own check."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for document in set(documents()) - {THESIS}:
        for path in PATH.findall(document.read_text(encoding="utf-8")):
            if path.split("/")[0] in folders and not (ROOT / path).exists():
                yield f"{document.relative_to(ROOT)}: names {path}, which is not there"


def check_make_targets() -> Iterator[str]:
    targets = set(re.findall(r"^([a-z%-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in documents():
        for name in MAKE.findall(document.read_text(encoding="utf-8")):
            if name not in targets and not is_benchmark(name):
                yield f"{document.relative_to(ROOT)}: `make {name}` is no target of the Makefile"


def is_benchmark(target: str) -> bool:
    """As in the Makefile: bench-mrv-tpcc is benchmarks/mrv/tpcc, a folder or a module."""
    place = ROOT / "benchmarks" / target.removeprefix("bench-").replace("-", "/")
    is_program = (place / "__main__.py").exists() or place.with_suffix(".py").exists()
    return target.startswith("bench-") and is_program


def check_thesis() -> Iterator[str]:
    """Each row of its tables: what, where, test. Names after a file's are in that file."""
    for number, line in enumerate(THESIS.read_text(encoding="utf-8").splitlines(), 1):
        cells = line.strip("|").split("|")
        if not line.startswith("|") or len(cells) != 3:
            continue
        for cell, folders in ((cells[1], [ROOT]), (cells[2], [ROOT / "tests", ROOT])):
            for problem in check_names(re.findall(r"`([^`]+)`", cell), folders):
                yield f"docs/thesis.md:{number}: {problem}"


def check_names(names: list[str], folders: list[Path]) -> Iterator[str]:
    """Files are looked for in the folders, and beside the last one that was found."""
    found: Path | None = None
    for name in names:
        if FILE_NAME.fullmatch(name):
            beside = [] if found is None else [found if found.is_dir() else found.parent]
            there = [folder / name for folder in [*folders, *beside] if (folder / name).exists()]
            found = there[0] if there else None
            if found is None:
                yield f"`{name}` is not there"
        elif (
            found is not None
            and found.is_file()
            and re.fullmatch(r"\w+", name)
            and not is_defined(name, found)
        ):
            yield f"`{name}` is not in {found.relative_to(ROOT)}"


def is_defined(name: str, file: Path) -> bool:
    """Whether the file has a function, or a test, of that name."""
    pattern = rf"def {name}\(|::{name}\(|TEST(?:_\w)?\(\w+, {name}\)"
    return re.search(pattern, file.read_text(encoding="utf-8")) is not None


def check_decisions() -> Iterator[str]:
    """The last two paragraphs of each, Code and Tests, and the index."""
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    for document in sorted(DECISIONS.glob("[0-9]*.md")):
        name = document.relative_to(ROOT)
        paragraphs = document.read_text(encoding="utf-8").split("\n\n")
        begins = [re.match(r"\*\*(\w+)", paragraph) for paragraph in paragraphs]
        titles = [found[1] for found in begins if found]
        if (titles[0], titles[-3:]) != ("Context", ["Rejected", "Code", "Tests"]):
            yield f"{name}: has {', '.join(titles)}. Remedy: Context, Choice, Rejected, Code, Tests"
            continue
        if f"[{paragraphs[0].removeprefix('# ')}]({document.name})" not in index:
            yield f"docs/decisions/README.md: does not list {document.name} with its title"
        code, tests = (re.findall(r"`([^`]+)`", paragraph) for paragraph in paragraphs[-2:])
        for problem in [*check_mentions(code), *check_tests(tests)]:
            yield f"{name}: {problem}"


def check_map() -> Iterator[str]:
    """The steps of the walks in ARCHITECTURE.md, and the rows of its last table."""
    text = MAP.read_text(encoding="utf-8").partition("## Four walks")[2]
    steps = re.split(r"\n(?=\d+\. |\| |\n)", text)
    if len(steps) < WALK_STEPS_MIN:
        yield f"ARCHITECTURE.md: the walks have only {len(steps)} steps"
    for step in steps:
        for problem in check_mentions(re.findall(r"`([^`]+)`", step)):
            yield f"ARCHITECTURE.md: {problem}: {step.strip()[:60]}"
    lines = len(MAP.read_text(encoding="utf-8").splitlines())
    if lines > MAP_LINES_MAX:
        yield f"ARCHITECTURE.md: {lines} lines. Remedy: details go to docs/decisions or to a README"


def check_mentions(names: list[str]) -> Iterator[str]:
    """Files, each followed by names that occur in it."""
    text = ""
    for name in names:
        if FILE_NAME.fullmatch(name):
            file = ROOT / name
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            if not file.exists():
                yield f"`{name}` is not there"
        elif text and not re.search(rf"\b{re.escape(name)}\b", text):
            yield f"`{name}` is not in the file before it"


def check_tests(names: list[str]) -> Iterator[str]:
    """Files (the end of their path is enough), each followed by tests that one of these files has."""
    found: list[Path] = []
    for name in names:
        if FILE_NAME.fullmatch(name):
            found = [path for path in TEST_FILES if f"/{path}".endswith(f"/{name}")]
            if not found:
                yield f"no file `{name}` is there"
        elif found and not any(is_defined(name, file) for file in found):
            yield f"`{name}` is not in {', '.join(str(path.relative_to(ROOT)) for path in found)}"


def check_security() -> Iterator[str]:
    """The last table of docs/security.md: what holds, and its tests."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = text.partition("\n| what holds | tests |")[2].splitlines()[2:]
    if not rows:
        yield "docs/security.md: has no table of tests. Remedy: | what holds | tests |"
    for row in rows:
        what, tests = (cell.strip() for cell in row.strip("|").split("|"))
        if not tests:
            yield f"docs/security.md: no test shows: {what}"
        for problem in check_tests(re.findall(r"`([^`]+)`", tests)):
            yield f"docs/security.md: {problem}"


def check_promises() -> Iterator[str]:
    """The last table of tests/README.md: what must hold, its tests, its mutations. It has all mutations."""
    named: set[str] = set()
    readme = (TESTS / "README.md").read_text(encoding="utf-8")
    table = readme.partition("\n| what must hold |")[2].splitlines()
    for row in table[2:]:
        what, tests, mutations = (cell.strip() for cell in row.strip("|").split("|"))
        if not tests:
            yield f"tests/README.md: no test shows: {what}"
        # `cluster` and `sites` are fixtures: a name without a capital letter or an underscore is no test.
        names = [name for name in re.findall(r"`([^`]+)`", tests) if re.search(r"[A-Z/_]", name)]
        for problem in check_tests(names):
            yield f"tests/README.md: {problem}"
        named.update(re.findall(r"`([^`]+)`", mutations))
    known = known_mutations()
    yield from (f"tests/README.md: there is no mutation `{name}`" for name in sorted(named - known))
    yield from (f"tests/README.md: the mutation `{name}` is in no row" for name in sorted(known - named))
    yield from (
        f"simulation_test.cc: no test looks for {name}" for name in sorted(mutations_that_no_test_runs())
    )


def simulated_mutations() -> set[str]:
    """Those of the simulation, by the names that they have in the code."""
    scenario = (TESTS / "simulation" / "scenario.h").read_text(encoding="utf-8")
    enumeration = scenario.partition("enum class Mutation {")[2].partition("};")[0]
    return {name for name in re.findall(r"^  (k\w+)", enumeration, re.MULTILINE) if name != "kNone"}


def known_mutations() -> set[str]:
    """Those of the simulation and of the fuzzer."""
    fuzzer = (TESTS / "fuzz" / "mutations.py").read_text(encoding="utf-8")
    return {*simulated_mutations(), *re.findall(r'\bMutation\(\s*"([^"]+)"', fuzzer)}


def mutations_that_no_test_runs() -> set[str]:
    """Those that the simulation has, and its test does not look for."""
    test = (TESTS / "simulation" / "simulation_test.cc").read_text(encoding="utf-8")
    run = set(re.findall(r"Mutation::(k\w+)", test.partition("INSTANTIATE_TEST_SUITE_P(")[2]))
    return simulated_mutations() - run


def settings_table(binary: Path) -> str:
    """A daemon's settings as a Markdown table, in the daemon's own words."""
    sample = subprocess.run(
        [binary, "--print-sample-config"], capture_output=True, text=True, check=True
    ).stdout
    rows = [
        f"| `{m['name']}` | {m['type']} | {m['fallback'].removeprefix('default ')} | {m['about']} |"
        for m in SETTING.finditer(sample)
    ]
    return "\n".join(["| key | value | default | meaning |", "| --- | --- | --- | --- |", *rows])


def with_tables(text: str, build: Path) -> str:
    """The document with the tables between its `settings of` marks written again."""
    for daemon in DAEMONS:
        begin, end = f"<!-- settings of {daemon} -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        assert found, f"docs/operating.md has no mark {begin}"
        _, _, after = rest.partition(end)
        text = f"{before}{begin}{settings_table(build / 'bin' / daemon)}\n{end}{after}"
    return text


def check_settings(build: Path, fix: bool) -> Iterator[str]:
    missing = [daemon for daemon in DAEMONS if not (build / "bin" / daemon).exists()]
    if missing:
        yield f"{build / 'bin'} lacks {', '.join(missing)}. Remedy: make build"
        return
    text = OPERATING.read_text(encoding="utf-8")
    made = with_tables(text, build)
    if fix:
        OPERATING.write_text(made, encoding="utf-8")
    elif made != text:
        yield "docs/operating.md: the tables of settings are not what the daemons say. Remedy: make format"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the CMake build folder")
    parser.add_argument("--fix", action="store_true", help="write the tables of settings")
    options = parser.parse_args()
    problems = [
        *check_links(),
        *check_paths(),
        *check_make_targets(),
        *check_thesis(),
        *check_promises(),
        *check_security(),
        *check_decisions(),
        *check_map(),
    ]
    problems += check_settings(ROOT / options.build, options.fix)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
