"""The profiles of the quick study, which of them a disk gets, and the sample of the disk's speed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import units
from ioassay.errors import StudyError, UsageError
from ioassay.study import catalog, quick_profile
from ioassay.study.quick_profile import PROFILES

LONG, STANDARD, SHORT = PROFILES
STUDY = catalog.load("quick").studies[0]
WORKLOADS = len(STUDY.case)
ROOMY, FAST = 2**40, 1e9


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


@pytest.mark.parametrize(
    ("budget_s", "profile"), [(15, SHORT), (59, SHORT), (60, STANDARD), (299, STANDARD), (300, LONG), (3600, LONG)]
)
def test_the_budget_chooses_the_profile_and_no_disk_that_is_fast_enough_changes_it(
    budget_s: float, profile: quick_profile.QuickProfile
) -> None:
    for speed in (6e7, 2e8, 3e9):
        choice = quick_profile.choose(budget_s, speed, ROOMY, WORKLOADS)
        assert (choice.profile, choice.wanted, choice.obstacle) == (profile, profile, "")


def test_profiles_take_what_their_budgets_say() -> None:
    assert [round(one.seconds(WORKLOADS, FAST)) for one in PROFILES] == [219, 51, 20]


@pytest.mark.parametrize(
    ("budget_s", "speed", "free_bytes", "profile", "obstacle"),
    [
        (60, 2e7, ROOMY, SHORT, "the disk writes 20 MB/s"),
        (300, 2e7, ROOMY, STANDARD, "the disk writes 20 MB/s"),
        (60, FAST, 2**29, SHORT, "512 MiB are free"),
        (300, FAST, 2**31, STANDARD, "2 GiB are free"),
    ],
)
def test_a_slow_or_a_full_disk_gets_a_smaller_profile(
    budget_s: float, speed: float, free_bytes: int, profile: quick_profile.QuickProfile, obstacle: str
) -> None:
    choice = quick_profile.choose(budget_s, speed, free_bytes, WORKLOADS)
    assert (choice.profile, choice.obstacle) == (profile, obstacle)


def test_a_disk_that_allows_no_profile_is_refused() -> None:
    with pytest.raises(StudyError, match=r"200 MiB are free; wanted 256 MiB or more"):
        quick_profile.choose(60, FAST, 200 * 2**20, WORKLOADS)
    with pytest.raises(StudyError, match=r"the disk writes 1 MB/s, so that .*'short' takes about .*--budget 154s"):
        quick_profile.choose(60, 1e6, ROOMY, WORKLOADS)


def test_the_built_in_study_is_the_standard_profile(tmp_path: Path) -> None:
    study = catalog.load("quick", lambda table: quick_profile.applied(dict(table), tmp_path, STANDARD)).studies[0]
    assert study.repetitions == STUDY.repetitions == STANDARD.repetitions
    assert study.target.model_dump()["size"] == units.parse_size(STUDY.target.model_dump()["size"])
    assert units.parse_duration_s(study.params["runtime"]) == units.parse_duration_s(STUDY.params["runtime"])


def test_a_budget_that_is_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="--budget 5: too short"):
        quick_profile.choose(5, FAST, ROOMY, WORKLOADS)


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
