"""The profiles of the quick study, which of them a disk gets, and the sample of the disk's speed."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora import cases

from ioassay import units
from ioassay.errors import StudyError, UsageError
from ioassay.study import catalog, quick_profile
from ioassay.study.quick_profile import PROFILES

LONG, STANDARD, SHORT = PROFILES
STUDY = catalog.load("quick").studies[0]
WORKLOADS = len(STUDY.case)
FAST = 1e9


@given(st.floats(15, 900), st.floats(1e5, 2e10), st.integers(2**20, 2**42))
def test_a_choice_keeps_to_its_budget_or_says_that_it_does_not(budget_s: float, speed: float, free_bytes: int) -> None:
    try:
        choice = quick_profile.choose(budget_s, speed, free_bytes, WORKLOADS)
    except StudyError:
        assert SHORT.size_bytes > free_bytes / 2 or SHORT.seconds(WORKLOADS, speed) > 2 * budget_s
        return
    assert choice.profile.size_bytes <= free_bytes / 2
    assert choice.seconds == choice.profile.seconds(WORKLOADS, speed)
    assert choice.seconds <= budget_s or choice.profile == SHORT
    assert bool(choice.obstacle) == (choice.profile != choice.wanted)


@cases("sweeps", "quick")
def test_budget_speed_and_room_choose_the_profile(case: dict[str, Any]) -> None:
    given = case["budget_s"], case["speed"], case["free_bytes"], WORKLOADS
    if "refused" in case:
        with pytest.raises((StudyError, UsageError), match=case["refused"]):
            quick_profile.choose(*given)
        return
    choice = quick_profile.choose(*given)
    assert (choice.profile.name, choice.obstacle) == (case["profile"], case.get("obstacle", ""))
    assert (choice.profile == choice.wanted) is ("obstacle" not in case)


def test_profiles_take_what_their_budgets_say() -> None:
    assert [round(one.seconds(WORKLOADS, FAST)) for one in PROFILES] == [219, 51, 20]


def test_the_built_in_study_is_the_standard_profile(tmp_path: Path) -> None:
    study = catalog.load("quick", lambda table: quick_profile.applied(dict(table), tmp_path, STANDARD)).studies[0]
    assert study.repetitions == STUDY.repetitions == STANDARD.repetitions
    assert study.target.model_dump()["size"] == units.parse_size(STUDY.target.model_dump()["size"])
    assert units.parse_duration_s(study.params["runtime"]) == units.parse_duration_s(STUDY.params["runtime"])


def test_the_sample_leaves_nothing_behind(tmp_path: Path) -> None:
    speed, free_bytes = quick_profile.write_speed(tmp_path)
    assert speed > 0
    assert free_bytes > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=f"{tmp_path}/none: cannot be written"):
        quick_profile.write_speed(tmp_path / "none")


def test_files_of_runs_that_were_killed_are_told_from_those_of_living_ones(tmp_path: Path) -> None:
    for name in ("ioassay-quick-1", "ioassay-quick-4194999", "ioassay-quick-mine", "ioassay-quick-"):
        (tmp_path / name).touch()
    assert quick_profile.files_of_killed(tmp_path) == [tmp_path / "ioassay-quick-4194999"]


def test_the_sample_of_the_speed_has_no_name_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGKILL there leaves no file."""
    names: list[list[Path]] = []
    monkeypatch.setattr(
        quick_profile, "_sample", lambda descriptor, block: names.append(list(tmp_path.iterdir())) or 1e9
    )
    quick_profile.write_speed(tmp_path)
    assert names == [[]]
