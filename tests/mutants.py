"""How many small faults would the tests notice? A development command: mutates pure Python, runs the nearest tests.

    python tests/mutants.py [--sample N] [--seed S] [--tests N] [PATH…]

Draws N mutants (20) of the modules below PATH (by default the rooms that compute and start nothing), one change each: a
comparison, an operator, a truth value or a number. Each is put into a copy of the package, and the tests that import
its module directly run against that copy, at most --tests files (6) and without slow ones. A mutant that no test
notices is printed with its place. Some of these change nothing that matters: read them before you believe the rate.
What tests start as a process of its own with `-I` uses the unchanged package, so commands are not covered here.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from affected import PACKAGE, ROOT, imports_of, module_of

PURE = ("stats", "analysis", "verify", "formats", "study", "units.py", "metrics.py", "factors.py", "validation.py")
PATIENCE_S = 180
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
    """Every change that this knows of one file; texts, annotations and f-strings are left alone."""
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
    """The nodes below `node` but annotations and f-strings, whose places Python 3.11 does not know."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"} or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from _code(child)


def nearest_tests(path: Path, most: int) -> list[Path]:
    """Test files that import the module, those that import little else first."""
    module = module_of(path)
    users = [test for test in (ROOT / "tests").rglob("test_*.py") if module in imports_of(test)]
    return sorted(users, key=lambda test: len(imports_of(test)))[:most]


def survives(mutant: Mutant, tests: Sequence[Path], copy: Path) -> bool:
    """True if the tests pass with the change in the copied package."""
    place = copy / mutant.path.relative_to(PACKAGE)
    source = mutant.path.read_text()
    place.write_text(mutant.apply(source))
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not alone"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*argv, *map(str, tests)], cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE_S, check=False
        )
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False  # a loop that does not end is noticed
    finally:
        place.write_text(source)


def main() -> None:
    """Draw, run, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=int, default=6)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    wanted = parser.parse_args()
    roots = [path.resolve() for path in wanted.paths] or [PACKAGE / "ioassay" / name for name in PURE]
    files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
    tested = {file: tests for file in files if (tests := nearest_tests(file, wanted.tests))}
    every = [mutant for file in tested for mutant in mutants(file, file.read_text())]
    drawn = random.Random(wanted.seed).sample(every, min(wanted.sample, len(every)))
    print(f"{len(every)} mutants of {len(tested)} files; no test imports {len(files) - len(tested)} more")
    alive = 0
    with tempfile.TemporaryDirectory(prefix="ioassay-mutants-") as folder:
        copy = Path(folder)
        shutil.copytree(PACKAGE / "ioassay", copy / "ioassay", ignore=shutil.ignore_patterns("__pycache__"))
        for mutant in drawn:
            if survives(mutant, tested[mutant.path], copy):
                alive += 1
                old = mutant.path.read_text()[mutant.begin : mutant.end]
                print(
                    f"survived  {mutant.path.relative_to(ROOT)}:{mutant.line}: '{old}' -> '{mutant.text}'", flush=True
                )
    print(f"{len(drawn) - alive} of {len(drawn)} noticed")


if __name__ == "__main__":
    main()
