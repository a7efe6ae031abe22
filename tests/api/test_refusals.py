"""Calls that cannot be done are refused by errors that name what is wrong, and leave nothing."""

from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ioassay as ia

from ..corpora import cases
from .conftest import STUDY_FILE, computed


def filled(value: Any, run: ia.Run) -> Any:
    return value.replace("{run}", str(run.root)) if isinstance(value, str) else value


@pytest.mark.usefixtures("own_children")
@cases("api", "refused")
def test_what_cannot_be_done_is_refused_by_name_and_leaves_nothing(case: dict[str, Any], run: ia.Run) -> None:
    there = {"there": "precious", "there.tar.gz": "as well", "mine.toml": STUDY_FILE}
    for name, text in there.items():
        Path(name).write_text(text)
    study = SimpleNamespace(run=computed().run, tune=lambda **keys: ia.tune(computed(), **keys))
    call = attrgetter(case["call"])(SimpleNamespace(ia=ia, run=run, study=study))
    with pytest.raises(getattr(ia, case["error"]), match=case["refused"]):
        made = call(*(filled(word, run) for word in case.get("words", ())), **case.get("keys", {}))
        if isinstance(made, AbstractContextManager):
            made.__enter__()
    assert {path.name: path.read_text() for path in Path().iterdir()} == there


def test_what_is_no_value_of_a_study_is_refused_and_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(ia.StudyError, match="params"):
        ia.Study(driver="null", params={"value": object()})
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ia.nothing
