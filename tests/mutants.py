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
import importlib
import io
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest

from affected import PACKAGE, ROOT, imports_of, module_of

PURE = ("stats", "analysis", "verify", "formats", "study", "units.py", "metrics.py", "factors.py", "validation.py")
NEEDS = ("slow", "alone", "root", "bpf", "guest", "browser", "landlock", "fio", "stress", "rocksdb")
IMPORTED = ("numpy", "polars", "pydantic", "hypothesis.strategies", "scipy.optimize", "scipy.signal", "scipy.stats")
"""What most tests import takes longer than most tests: every process of a mutant has it from the start."""
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
    """Test files that reach the module by the fewest imports; that of its name first, then those that import little."""
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


def run_tests(words: Sequence[object], mutant: Mutant | None = None) -> tuple[int, list[str]]:
    """Pytest's exit code and the tests that fail, with a copy of the package that has the change.

    For a process of its own, which imports the package for the first time. The copy is of symbolic links: compiled
    files of what is not changed hold in it.
    """
    with tempfile.TemporaryDirectory(prefix="ioassay-mutant-") as folder, redirect_stdout(io.StringIO()) as output:
        copy = Path(folder)
        shutil.copytree(PACKAGE / "ioassay", copy / "ioassay", copy_function=os.symlink)
        if mutant is not None:
            place = copy / mutant.path.relative_to(PACKAGE)
            place.unlink()
            place.write_text(mutant.apply(mutant.path.read_text()))
            Path(cache_from_source(str(place))).unlink(missing_ok=True)
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = folder
        os.chdir(ROOT)
        argv = [
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={folder}/tests",
            "-m",
            " and ".join(f"not {need}" for need in NEEDS),
        ]
        code = pytest.main([*argv, f"--timeout={PATIENCE_S}", *map(str, words)])
    return int(code), re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.getvalue(), re.MULTILINE)


def killer(mutant: Mutant, words: Sequence[object]) -> str:
    """The test that fails with the change; empty if none does."""
    code, failing = run_tests(["-x", *words], mutant)
    if code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return ""
    return " ".join(failing) or f"exit {code}"


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
    for name in IMPORTED:
        importlib.import_module(name)
    killed = {}
    with multiprocessing.get_context("fork").Pool(wanted.jobs, maxtasksperchild=1) as pool:
        runs = [pool.apply_async(killer, (mutant, nearest[mutant.path])) for mutant in drawn if nearest[mutant.path]]
        judged = [mutant for mutant in drawn if nearest[mutant.path]]
        fates = dict(zip(judged, runs, strict=True))
        for mutant in drawn:
            killed[mutant] = test = fates[mutant].get() if mutant in fates else ""
            place = f"{mutant.path.relative_to(PACKAGE / 'ioassay')}:{mutant.line}"
            old = mutant.path.read_text()[mutant.begin : mutant.end]
            print(f"{'killed' if test else 'alive '}  {place}: '{old}' -> '{mutant.text}'  {test}", flush=True)
        tests = {test for test in killed.values() if "::" in test}
        code, failing = pool.apply(run_tests, (sorted(tests),)) if tests else (0, [])
    if code:
        print(f"without a change the tests that kill end with {code} as well: {', '.join(failing)}")
    print(f"{sum(map(bool, killed.values()))} of {len(drawn)} killed")


if __name__ == "__main__":
    main()
