"""Proves that dependencies run one way: daemons -> writeset -> common -> proto, and that decisions stay pure.

Three rules, read from the #include lines and the CMakeLists.txt files:
1. common/ includes only common/ and proto/, writeset/ those two and itself; benchmarks/ its own parts and
   common/.
2. A stage folder (primary/certify, semi_primary/apply, ...) includes itself, writeset/, common/ and proto/;
   never another stage, but for the interfaces in INTERFACES. Only a daemon's own top folder (server.cc,
   main.cc), its core/ and its testing/ see its stages, never the other's.
3. A library named *_core is pure: neither it nor what it links or includes knows sockets, databases, threads.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source_files import ROOT, cpp_files, is_test

DAEMONS = ("primary", "semi_primary")
# What stages of a daemon may know of one another: values and interfaces.
INTERFACES = (("semi_primary", "front"),)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
IMPURE_HEADERS = re.compile(
    r"^(zmq|pqxx|asio|libpq|sys/socket|thread|mutex|shared_mutex|condition_variable|future|stop_token)\b"
)
IMPURE_LIBRARIES = {"psp::zmq", "psp::pqxx", "psp::asio", "psp_common"}
# The pure part of common/ offers some helpers of threads too; others' cores may not include those.
EXEMPT_CORES = {"psp_common_core"}


def includes(path: Path) -> list[str]:
    """What a file includes, as written: ours in quotes and others' in angle brackets alike."""
    return [ours or theirs for ours, theirs in INCLUDE.findall((ROOT / path).read_text(encoding="utf-8"))]


def part_of(path: Path) -> tuple[str, ...]:
    """(daemon, stage), (daemon,) for a daemon's own top folder, or (folder,)."""
    folders = path.parts[:-1]
    return folders[:2] if folders[0] in DAEMONS else folders[:1]


def may_include(part: tuple[str, ...], other: tuple[str, ...]) -> bool:
    if other == part or other[0] == "proto":
        return True
    if other[0] == "common":
        return part[0] != "proto"
    if other[0] == "writeset":
        return part[0] in DAEMONS
    if other[0] != part[0] or part[0] not in DAEMONS:
        return False
    # A daemon's top folder wires its own stages; its core joins their decisions.
    is_top = len(part) == 1 or part[1] in ("core", "testing")
    return is_top or other in INTERFACES


def check_direction() -> Iterator[str]:
    for path in cpp_files():
        if path.parts[0] == "tests":
            continue
        part = part_of(path)
        for name in includes(path):
            if (ROOT / name).is_file() and not may_include(part, part_of(Path(name))):
                yield (
                    f"{path}: includes {name}, which {'/'.join(part)} may not know. "
                    "Remedy: move the shared type to common/, writeset/ or proto/, or pass it in from server."
                )


def commands(text: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """(target, further arguments) of each call of a CMake command."""
    text = re.sub(r"#.*", "", text)
    for body in re.findall(rf"\b{name}\s*\(([^)]*)\)", text):
        words = body.split()
        if words:
            yield words[0], words[1:]


def read_targets() -> tuple[dict[str, list[Path]], dict[str, list[str]]]:
    """Each target's sources (relative to the root) and what it links."""
    sources: dict[str, list[Path]] = {}
    links: dict[str, list[str]] = {}
    for cmake in sorted(ROOT.glob("*/**/CMakeLists.txt")):
        text = cmake.read_text(encoding="utf-8")
        folder = cmake.parent.relative_to(ROOT)
        for target, words in commands(text, "add_library"):
            sources[target] = [folder / word for word in words if word.endswith(".cc")]
        for target, words in commands(text, "target_link_libraries"):
            links.setdefault(target, []).extend(
                w for w in words if w not in ("PUBLIC", "PRIVATE", "INTERFACE")
            )
    return sources, links


def impure_links(target: str, links: dict[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [target]
    while waiting:
        for library in links.get(waiting.pop(), []):
            if library not in seen:
                seen.add(library)
                waiting.append(library)
    return seen & IMPURE_LIBRARIES


def impure_includes(start: list[Path]) -> Iterator[tuple[Path, str]]:
    """Every forbidden header that the files reach through our own headers."""
    waiting = [path for source in start for path in (source, source.with_suffix(".h"))]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not (ROOT / path).is_file():
            continue
        for name in includes(path):
            if IMPURE_HEADERS.match(name):
                yield path, name
            elif Path(name) not in seen:
                seen.add(Path(name))
                waiting.append(Path(name))


def check_cores() -> Iterator[str]:
    sources, links = read_targets()
    for target in sorted(t for t in sources if t.endswith("_core") and t not in EXEMPT_CORES):
        for library in sorted(impure_links(target, links)):
            yield (
                f"{target} links {library}, but decisions are pure. "
                "Remedy: take what it brings as an argument, or move the code to the folder's other library."
            )
        for path, header in impure_includes([s for s in sources[target] if not is_test(s)]):
            yield (
                f"{target}: {path} includes <{header}>, but decisions are pure. "
                "Remedy: take messages and time as arguments; sockets, threads and SQL belong to the caller."
            )


def main() -> int:
    problems = [*check_direction(), *check_cores()]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
