"""Studies as objects: what they are made of, what they say is wrong, and what they plan."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import ioassay as ia
from ioassay.api.study import StudyKeys
from ioassay.study import model

from .conftest import HOSTILE, STUDY_FILE, computed


@pytest.fixture
def file() -> Path:
    path = Path("mine.toml")
    path.write_text(STUDY_FILE)
    return path


def levels(study: ia.Study) -> list[object]:
    return sorted(set(study.plan().trials["x"].to_list()))


def test_python_values_are_those_of_a_file(file: Path) -> None:
    made = ia.Study(driver="null_pure", factors={"x": (1, 2, 4)}, name="mine")
    assert made.plan().trials.equals(ia.Study.read(file).plan().trials)


def test_an_editor_completes_the_keys_of_a_study() -> None:
    known = {*inspect.signature(ia.Study).parameters, *StudyKeys.__annotations__} - {"keys"}
    assert known == model.Study.model_fields.keys()


def test_a_study_survives_its_own_toml() -> None:
    made = computed(target={"kind": "file", "path": Path("data"), "size": "1MiB"})
    Path("again.toml").write_text(made.to_toml())
    again = ia.Study.read("again.toml")
    assert again.to_toml() == made.to_toml() and again.title == HOSTILE


def test_changes_are_typed_or_words(file: Path) -> None:
    typed = ia.Study.read(file, settings={"noise": 0.5, "seed": 7}, factors={"x": [3, 5]}, repetitions=4)
    words = ia.Study.read(file, settings=["noise=0.5", "seed=7"], factors=["x=3,5"], repetitions=4)
    assert typed.to_toml() == words.to_toml()
    assert levels(typed) == [3, 5] and typed.plan().trials.height == 8
    assert ia.Study.read(file, scale="quick").plan().trials.height == 6


def test_levels_are_sequences_and_numbers_of_any_library(file: Path) -> None:
    wanted = ia.Study(driver="null", factors={"x": [1, 2], "y": [0.5]}, repetitions=3).to_toml()
    for levels in (np.array([1, 2]), [np.int64(1), np.int64(2)], range(1, 3)):
        made = ia.Study(driver="null", factors={"x": levels, "y": np.array([0.5])}, repetitions=np.int64(3))
        assert made.to_toml() == wanted
        assert ia.Study.read(file, factors={"x": levels}).suite.studies[0].factors == {"x": [1, 2]}


def test_a_plan_has_trials_cost_and_warnings_and_touches_nothing() -> None:
    planned = computed(params={"sleep": "2s"}).plan()
    assert planned.trials.columns == ["order", "id", "study", "repetition", "x"]
    assert planned.trials.height == 6 and planned.seconds > 0
    assert all(one.repetitions > 1 for one in planned.repetitions(0.1, 0.05))
    assert not list(Path().iterdir())


def test_names_are_text_in_html() -> None:
    study = computed(description=HOSTILE)
    for shown in (study._repr_html_(), study.plan()._repr_html_()):
        assert "<script>" not in shown and "&lt;script&gt;" in shown
