"""What chooses and judges tests: `./check --changed`, the mutation check, and the groups of pytest-xdist."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as where they run as programs

import affected
from mutants import mutants

from .corpora import tree

SOURCE = '''def share(part: int = 0, whole: float = 1.0) -> float | None:
    """Text with 1 < 2 stays."""
    if not whole or part < 0 and (part) <= whole:
        return None
    return f"{part + 1}" and part * 100 / whole - 2  # ä
'''


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        pytest.param("python/ioassay/one/a.py", "a text complete tidy b", id="importers, then names, then their users"),
        pytest.param("python/ioassay/one/b.py tests/test_other.py", "other b complete tidy", id="a changed test first"),
        pytest.param("docs/guide.svg", "docs complete tidy", id="tests that name a document"),
        pytest.param("tests/conftest.py", "a b complete docs other text tidy", id="all tests that share fixtures"),
        pytest.param("LICENSE", "complete tidy", id="the rules of the tree for what no test knows"),
    ],
)
def test_a_change_brings_the_tests_that_it_can_break_nearest_first(
    changed: str, found: str, fake_root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fake_root(tree("tree", "choice_of_tests"))
    monkeypatch.setattr(affected, "ROOT", root)
    monkeypatch.setattr(affected, "PACKAGE", root / "python")
    tests = {path: path.read_text() for path in sorted((root / "tests").glob("test_*.py"))}
    sources = sorted((root / "python").rglob("*.py"))
    names = [path.stem.removeprefix("test_") for path in affected.affected(changed.split(), tests, sources)]
    assert names == found.split()


def test_each_mutant_is_one_change_and_is_python() -> None:
    changed = [mutant.apply(SOURCE) for mutant in mutants(Path("share.py"), SOURCE)]
    assert len(changed) == len(set(changed)) >= 12
    for text in changed:
        ast.parse(text)
        assert text != SOURCE
        assert "Text with 1 < 2 stays" in text and "{part + 1}" in text and "float | None" in text
    pieces = ["part <= 0", "(part) < whole", "part / 100", "* 101", "/ whole + 2", "if whole or", "whole and part <"]
    assert [piece for piece in pieces if piece not in "".join(changed)] == []


@pytest.fixture(scope="module")
def costly() -> object:
    return object()


@pytest.mark.usefixtures("costly")
def test_a_test_with_a_fixture_of_its_module_is_in_the_group_of_its_file(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ or not request.config.getoption("loadgroup", False):
        return  # one process runs everything
    assert request.node.nodeid.endswith(f"@{request.path}")
