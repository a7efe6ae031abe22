"""How many small faults would the tests notice? A development command: mutates pure Python, runs the nearest tests.

    python tests/mutants.py [--sample N] [--seed S] [--tests N] [--jobs N] [PATH…]

Draws N mutants (20) of the modules below PATH (by default the rooms that compute and start nothing), one change each: a
comparison, an operator, a truth value or a number. Each is put into a copy of the package, and the tests nearest to its
module run against that copy, at most --tests files (6): first those that import the module, then those that import an
importer of it; neither slow ones nor those that need the machine. Tests that fail against an unchanged copy are left
out. Every mutant is printed with its place and the test that kills it, or as alive. Some that live change nothing that
matters: read them before you believe the rate. What tests start as a process of its own with `-I` uses the unchanged
package, so commands are not covered here.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest

from affected import PACKAGE, ROOT, imports_of, module_of

PURE = ("stats", "analysis", "verify", "formats", "study", "units.py", "metrics.py", "factors.py", "validation.py")
NEEDS = ("slow", "alone", "root", "bpf", "guest", "browser", "landlock", "fio", "stress", "rocksdb")
PATIENCE_S = 60
"""For a single test: a loop that does not end is noticed."""
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.In: ("in", "not in"),
}
"""Operator -> how it is written, and what is written instead."""


@dataclass(frozen=True)
class Mutant:
    """One change: the text from `begin` to `end` (offsets into the file) becomes `text`."""

    path: Path
    line: int
    begin: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """The source with the change."""
        return source[: self.begin] + self.text + source[self.end :]


def mutants(path: Path, source: str) -> Iterator[Mutant]:
    """Every change that this knows of one file; texts, annotations, decorators and f-strings are left alone."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def begin(node: ast.expr) -> int:
        return offset(node.lineno, node.col_offset)

    def end(node: ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return offset(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[Mutant]:
        if type(operator) not in OPERATORS:
            return
        written, instead = OPERATORS[type(operator)]
        gap = source[end(left) : begin(right)]
        if gap.count(written) == 1:
            place = end(left) + gap.index(written)
            yield Mutant(path, left.lineno, place, place + len(written), instead)

    for node in _code(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=operators, comparators=others):
                for before, operator, after in zip([left, *others], operators, others, strict=False):
                    yield from between(before, operator, after)
            case ast.BinOp(left=left, op=operator, right=right):
                if not any(isinstance(side, ast.JoinedStr) for side in (left, right)):
                    yield from between(left, operator, right)
            case ast.BoolOp(op=operator, values=[left, right]):
                yield from between(left, operator, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield Mutant(path, node.lineno, begin(node), begin(operand), "")
            case ast.Constant(value=bool(value)):
                yield Mutant(path, node.lineno, begin(node), end(node), str(not value))
            case ast.Constant(value=int(value)):
                yield Mutant(path, node.lineno, begin(node), end(node), str(value + 1))
            case ast.Constant(value=float(value)):
                yield Mutant(path, node.lineno, begin(node), end(node), repr(value * 1.01 + 1e-9))


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `node` but f-strings, whose places Python 3.11 does not know, and what mypy checks (frozen)."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"} or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from _code(child)


@cache
def users_of(module: str) -> frozenset[Path]:
    """The files of the package and of the tests that import a module."""
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("test_*.py")]
    return frozenset(file for file in files if module in imports_of(file))


def nearest_tests(path: Path, most: int) -> list[Path]:
    """Test files that reach the module by the fewest imports: that of its name first, then by how little they import."""
    modules = {module_of(file) for file in PACKAGE.rglob("*.py")}
    tests: list[Path] = []
    reached, level = {path}, {path}
    while level and len(tests) < most:
        level = {user for file in level for user in users_of(module_of(file))} - reached
        reached |= level
        users = [user for user in level if user.is_relative_to(ROOT / "tests")]
        tests += sorted(
            users, key=lambda test: (test.stem != f"test_{path.stem}", len(imports_of(test) & modules), test)
        )
        level.difference_update(users)
    return tests[:most]


def run_tests(copy: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Pytest with the copied package in front of the installed one."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        " and ".join(f"not {need}" for need in NEEDS),
    ]
    return subprocess.run(
        [*argv, f"--timeout={PATIENCE_S}", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def failing_tests(output: str) -> list[str]:
    """What pytest's summary names as failed or as not importable."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)


def killer(mutant: Mutant, copy: Path, words: Sequence[object]) -> str:
    """The test that fails with the change in the copied package; empty if none does."""
    place = copy / mutant.path.relative_to(PACKAGE)
    compiled = Path(cache_from_source(str(place)))  # of the same second and size as the changed source, perhaps
    source = mutant.path.read_text()
    try:
        place.write_text(mutant.apply(source))
        compiled.unlink(missing_ok=True)
        done = run_tests(copy, "-x", *words)
        if done.returncode in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return ""
        return " ".join(failing_tests(done.stdout)) or f"exit {done.returncode}"
    finally:
        place.write_text(source)
        compiled.unlink(missing_ok=True)


def main() -> None:
    """Draw, run, and print what became of each mutant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    wanted = parser.parse_args()
    roots = [path.resolve() for path in wanted.paths] or [PACKAGE / "ioassay" / name for name in PURE]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
    every = [mutant for file in files for mutant in mutants(file, file.read_text())]
    drawn = random.Random(wanted.seed).sample(every, min(wanted.sample, len(every)))
    nearest = {path: nearest_tests(path, wanted.tests) for path in {mutant.path for mutant in drawn}}
    print(f"{len(every)} mutants of {len(files)} files", flush=True)
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="ioassay-mutants-") as folder, ThreadPoolExecutor(wanted.jobs) as pool:
        for job in range(wanted.jobs):
            copy = Path(folder, str(job))
            shutil.copytree(PACKAGE / "ioassay", copy / "ioassay", ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        tests = sorted({test for near in nearest.values() for test in near})
        failing = failing_tests(run_tests(copy, "-n", wanted.jobs, *tests).stdout)
        for test in failing:
            print(f"left out  {test}", flush=True)

        def fate(mutant: Mutant) -> str:
            if not nearest[mutant.path]:
                return ""
            copy = copies.get()
            try:
                deselected = [f"--deselect={test}" for test in failing]
                return killer(mutant, copy, [*deselected, *nearest[mutant.path]])
            finally:
                copies.put(copy)

        killed = 0
        for mutant, test in zip(drawn, pool.map(fate, drawn), strict=True):
            killed += bool(test)
            place = f"{mutant.path.relative_to(PACKAGE / 'ioassay')}:{mutant.line}"
            old = mutant.path.read_text()[mutant.begin : mutant.end]
            print(f"{'killed' if test else 'alive '}  {place}: '{old}' -> '{mutant.text}'  {test}", flush=True)
    print(f"{killed} of {len(drawn)} killed")


if __name__ == "__main__":
    main()
