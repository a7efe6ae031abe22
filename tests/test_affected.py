"""`./check --changed` runs the tests that a change can break, nearest first."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("affected", Path(__file__).parent / "affected.py")
assert SPEC is not None and SPEC.loader is not None
affected = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(affected)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose `b` imports `a`, and a test of each."""
    files = {
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
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(affected, "ROOT", tmp_path)
    monkeypatch.setattr(affected, "PACKAGE", tmp_path / "python")
    return tmp_path


def found(tree: Path, *changed: str) -> list[str]:
    tests = {path: path.read_text() for path in sorted((tree / "tests").glob("test_*.py"))}
    sources = sorted((tree / "python").rglob("*.py"))
    return [path.stem.removeprefix("test_") for path in affected.affected(changed, tests, sources)]


def test_tests_that_import_a_module_come_before_those_that_name_it_or_import_its_users(tree: Path) -> None:
    assert found(tree, "python/ioassay/one/a.py") == ["a", "text", "complete", "tidy", "b"]


def test_a_changed_test_is_first(tree: Path) -> None:
    assert found(tree, "python/ioassay/one/b.py", "tests/test_other.py") == ["other", "b", "complete", "tidy"]


def test_a_document_brings_the_tests_that_name_it(tree: Path) -> None:
    assert found(tree, "docs/guide.svg") == ["docs", "complete", "tidy"]


def test_fixtures_of_a_folder_bring_all_of_its_tests(tree: Path) -> None:
    assert {"a", "b", "other"} < set(found(tree, "tests/conftest.py"))


def test_what_no_test_knows_brings_the_rules_of_the_tree(tree: Path) -> None:
    assert found(tree, "LICENSE") == ["complete", "tidy"]
