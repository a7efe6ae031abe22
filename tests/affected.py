"""Which tests a change can break, for `./check --changed`: prints their files, nearest first.

    python tests/affected.py [--since COMMIT]

The change is what differs from COMMIT, files that git does not know included; by default from the last commit, and
where nothing does, what the last commit changed. Of Python these are the changed tests, then the tests that import a
changed module, or name it as text, or import a module that imports it. A changed document or golden output brings the
tests that name it. At most MOST files are printed; how many more there are is said on standard error. Markers are not
looked at, and nothing is run. The rules of the whole tree come before those that only import an importer.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python"
MOST = 12
"""What usually takes less than a minute; the rest is left to the whole ./check."""
ALWAYS = (
    "tests/test_tidy.py",
    "tests/test_complete.py",
    "tests/test_documents.py",
    "tests/test_shown_tables.py",
)
"""Rules of the whole tree, documents included: any change can break them."""


def git(*words: str) -> list[str]:
    """The lines of git's answer."""
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line]


def changed_files(since: str | None = None) -> list[str]:
    """Paths relative to the repository; see the module for the default."""
    unknown = git("ls-files", "--others", "--exclude-standard")
    files = git("diff", "--name-only", since or "HEAD") + unknown
    return sorted(set(files or git("diff", "--name-only", "HEAD~1", "HEAD")))


def module_of(path: Path) -> str:
    """`ioassay.host.disks` of python/ioassay/host/disks.py."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module that a file may mean by an import of this package: of `from a import b` both a and a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ioassay"):
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("ioassay")}
        elif isinstance(node, ast.Call) and ast.unparse(node).startswith("import_module(f'ioassay."):
            room = ast.unparse(node).partition("f'")[2].partition(".{")[0]  # any module of it
            names |= {module_of(found) for found in PACKAGE.joinpath(*room.split(".")).glob("*.py")}
    return frozenset(names)


def affected(changed: Sequence[str], tests: Mapping[Path, str], sources: Sequence[Path]) -> Iterator[Path]:
    """The files of `tests` (path -> text) that the change of the files `changed` can break, nearest first."""
    paths = [ROOT / name for name in changed]
    modules = {module_of(path) for path in paths if path.is_relative_to(PACKAGE) and path.suffix == ".py"}
    users = {module_of(source) for source in sources if imports_of(source) & modules}
    named = [re.escape(path.name) for path in paths if path.suffix not in {".py", ".rs", ".toml"}]
    named += [re.escape(module) for module in modules if module.count(".") > 1]
    naming = re.compile(rf"(?<![\w.])({'|'.join(named)})(?!\w)") if named else None
    folders = {path.parent for path in paths if path.name == "conftest.py"}
    rules = [
        lambda test: test in paths or bool(folders & {*test.parents}),
        lambda test: bool(imports_of(test) & modules),
        lambda test: naming is not None and naming.search(tests[test]) is not None,
        lambda test: str(test.relative_to(ROOT)) in ALWAYS,
        lambda test: bool(imports_of(test) & users),
    ]
    seen: set[Path] = set()
    for rule in rules:
        nearest = [test for test in tests if test not in seen and rule(test)]
        seen.update(nearest)
        yield from nearest


def main() -> None:
    """Print the files, relative to the repository."""
    since = sys.argv[sys.argv.index("--since") + 1] if "--since" in sys.argv else None
    tests = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    files = list(affected(changed_files(since), tests, sorted(PACKAGE.rglob("*.py"))))
    for path in files[:MOST]:
        print(path.relative_to(ROOT))
    if len(files) > MOST:
        print(f"affected: {len(files) - MOST} more files of tests are left to the whole ./check", file=sys.stderr)


if __name__ == "__main__":
    main()
