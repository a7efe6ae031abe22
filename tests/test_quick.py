"""Fitting the quick study into its budget, and the sample of the disk's speed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.errors import StudyError, UsageError
from ioassay.study import time_budget

WORKLOADS = 6


@given(st.floats(20, 600), st.floats(5e6, 2e10), st.integers(2**28, 2**42))
def test_a_fit_keeps_to_its_budget_or_to_its_minimum(budget_s: float, speed: float, free_bytes: int) -> None:
    fit = time_budget.fit(budget_s, speed, free_bytes, WORKLOADS)
    assert fit.repetitions >= 3
    assert 0.5 <= fit.run_s <= 3
    assert 2**26 <= fit.size_bytes <= 2**30
    needed_s = fit.size_bytes / speed + WORKLOADS * fit.repetitions * (fit.run_s + 0.5) + 5
    smallest = fit.repetitions == 3 and fit.run_s == 0.5
    assert smallest or needed_s <= budget_s + WORKLOADS * fit.repetitions * 0.05


def test_more_time_gives_more_evidence() -> None:
    fits = [time_budget.fit(budget_s, 1e9, 2**40, WORKLOADS) for budget_s in (20, 30, 60, 120, 600)]
    evidence = [fit.repetitions * fit.run_s for fit in fits]
    assert evidence == sorted(evidence)
    assert fits[0].repetitions == 3
    assert fits[-1] == time_budget.Fit(2**30, 3.0, 10)


@pytest.mark.parametrize(
    ("budget_s", "speed", "free_bytes", "size_mib", "run_s", "repetitions"),
    [
        (15, 1e9, 2**40, 1024, 0.5, 3),
        # 5.1 s of writing, 5 s of the report: of 30 trials 1.66 s, of which 0.5 is fio's start and end.
        (60, 200 * 2**20, 2**40, 1024, 1.2, 5),
        (60, 2**30 / 2.494, 2**40, 1024, 1.3, 5),  # 52.506 s are left: 1.2502 s for each of 30 trials
        (40, 50 * 2**20, 2**40, 300, 0.7, 4),  # 6 s, 5 s, 29 s: of 24 trials 1.21 s, of 30 less than 0.7 and 0.5
        (105, 100 * 2**20, 2**32, 1024, 2.5, 5),  # 10.24 s, 5 s, 89.76 s: of 36 trials 2.49 s, less than 2 and 0.5
        (106, 100 * 2**20, 2**32, 1024, 2.0, 6),
        (30, 100 * 2**20, 400 * 2**20, 100, 0.8, 3),  # a quarter of what is free
    ],
)
def test_the_fit_is_what_its_budget_leaves(
    budget_s: float, speed: float, free_bytes: int, size_mib: int, run_s: float, repetitions: int
) -> None:
    found = time_budget.fit(budget_s, speed, free_bytes, WORKLOADS)
    assert found == time_budget.Fit(size_mib * 2**20, run_s, repetitions)


def test_a_slow_disk_gets_a_small_file() -> None:
    assert time_budget.fit(60, 2e7, 2**40, WORKLOADS).size_bytes <= 2e7 * 60 * 0.16
    assert time_budget.fit(60, 1e6, 2**40, WORKLOADS).size_bytes == 2**26


def test_a_budget_that_is_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="--budget 5: too short"):
        time_budget.fit(5, 1e9, 2**40, WORKLOADS)


def test_the_sample_leaves_nothing_behind(tmp_path: Path) -> None:
    speed, free_bytes = time_budget.write_speed(tmp_path)
    assert speed > 0
    assert free_bytes > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=f"{tmp_path}/none: cannot be written"):
        time_budget.write_speed(tmp_path / "none")


def test_files_of_runs_that_were_killed_are_told_from_those_of_living_ones(tmp_path: Path) -> None:
    for name in ("ioassay-quick-1", "ioassay-quick-4194999", "ioassay-quick-mine", "ioassay-quick-"):
        (tmp_path / name).touch()
    assert time_budget.files_of_killed(tmp_path) == [tmp_path / "ioassay-quick-4194999"]


def test_the_sample_of_the_speed_has_no_name_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGKILL there leaves no file."""
    names: list[list[Path]] = []
    monkeypatch.setattr(time_budget, "_sample", lambda descriptor, block: names.append(list(tmp_path.iterdir())) or 1e9)
    time_budget.write_speed(tmp_path)
    assert names == [[]]
