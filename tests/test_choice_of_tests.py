"""What chooses and judges tests: `./check --changed`, the mutation check, and the groups of pytest-xdist."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as where they run as programs

import affected
from mutants import mutants

FILES = {
    "python/ioassay/__init__.py": "",
    "python/ioassay/one/a.py": "VALUE = 1\n",
    "python/ioassay/one/b.py": "from ioassay.one import a\n",
    "tests/test_a.py": "from ioassay.one import a\n",
    "tests/test_b.py": "from ioassay.one.b import a\n",
    "tests/test_text.py": 'NAME = "ioassay.one.a"\n',
    "tests/test_docs.py": 'PAGE = "guide.svg"\n',
    "tests/test_other.py": "import json\n",
    "tests/test_tidy.py": "",
    "tests/test_complete.py": "",
}
"""A package whose `b` imports `a`, and a test of each."""
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
    changed: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    monkeypatch.setattr(affected, "PACKAGE", tmp_path / "python")
    tests = {path: path.read_text() for path in sorted((tmp_path / "tests").glob("test_*.py"))}
    sources = sorted((tmp_path / "python").rglob("*.py"))
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
