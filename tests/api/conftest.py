"""A study that computes its trials, and a run of it that several tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia

from ..patience import children

HOSTILE = "<script>alert(1)</script>"
STUDY_FILE = 'title = "mine"\ndriver = "null_pure"\n[factors]\nx = [1, 2, 4]\n[scale.quick]\nrepetitions = 2\n'


def computed(**changes: Any) -> ia.Study:
    keys = {"factors": {"x": [1, 2]}, "repetitions": 3, "params": {"noise": 0.01}, **changes}
    return ia.Study(driver="null_pure", title=HOSTILE, **keys)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ia.Run:
    return computed().run(tmp_path_factory.mktemp("api") / "run")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_children() -> Iterator[None]:
    """This process has no child that it had not, when the test is over."""
    before = children()
    yield
    assert children() <= before
