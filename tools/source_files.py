"""Which files of the tree are ours to check: everything but what is built, installed or generated."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP_FOLDERS = (
    "capture_module",
    "certify_module",
    "common",
    "writeset",
    "primary",
    "semi_primary",
    "benchmarks",
    "client_libs",
    "mrv",
    "tests",
)
PYTHON_FOLDERS = ("schema_tool", "client_libs", "tests", "benchmarks", "tools")


def under(folders: tuple[str, ...], *suffixes: str) -> list[Path]:
    """Files with one of the suffixes in the folders that exist, relative to the root, sorted."""
    found = (
        path.relative_to(ROOT)
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and path.is_file()
    )
    return sorted(path for path in found if not any(part.startswith((".", "build")) for part in path.parts))


def cpp_files() -> list[Path]:
    """C, too: the server module."""
    return under(CPP_FOLDERS, ".c", ".cc", ".h")


def is_test(path: Path) -> bool:
    in_folder = {"tests", "testing"} & set(path.parts[:2])
    return bool(in_folder) or path.stem.endswith(("_test", "_fixture", "_benchmark"))
