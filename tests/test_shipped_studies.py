"""The studies of subsystems, `load-latency`, `rocksdb` and `quick`: sweeps at both scales, and what a host can run.

What stress-ng makes of the subsystems is not tested here: that takes minutes, and differs from host to host.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import units
from ioassay.errors import StudyError, UsageError
from ioassay.packs.fio import quick_study
from ioassay.packs.fio.quick_study import PROFILES
from ioassay.study import catalog, plan, relative_levels
from ioassay.study.model import Study, Suite
from ioassay.study.relative_levels import Machine

from .cli import command_server
from .cli.conftest import ask
from .corpora import cases, rows

SWEEPS = {row["id"]: row["factors"] for row in rows("sweeps", "subsystems")}
SUBSYSTEMS = ("cpu", "cache", "io", "memory", "network", "pipe", "scheduler")
QUICK_S = 270
"""Of load; starting trials and the report take the rest of six minutes."""


@pytest.fixture(scope="module", autouse=True)
def commands() -> Iterator[None]:
    """The server that forks commands ends with this file."""
    yield
    command_server.end()


@pytest.fixture(autouse=True)
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative_levels, "this_machine", lambda: Machine(4, 2**33))


def quick(name: str) -> Suite:
    return catalog.load(name, lambda table: catalog.scaled(table, "quick"))


def load_s(study: Study) -> float:
    (trials,) = plan.count(Suite(name="one", title="", studies=[study])).values()
    return trials * float(str(study.params["timeout"]).removesuffix("s"))


def test_the_suite_has_every_sweep_once_and_each_subsystem_its_own() -> None:
    assert [study.name for study in catalog.load("subsystems").studies] == list(SWEEPS)
    for subsystem in SUBSYSTEMS:
        names = [study.name for study in catalog.load(f"subsystem-{subsystem}").studies]
        assert names == [name for name in SWEEPS if name.startswith(f"subsystem-{subsystem}-")]


@cases("sweeps", "subsystems")
def test_a_study_sweeps_what_it_says_and_some_of_it_at_the_quick_scale(case: dict[str, Any]) -> None:
    (study,), (short,) = catalog.load(case["id"]).studies, quick(case["id"]).studies
    assert (study.driver, study.params["stressor"]) == ("stress_ng", case["stressor"])
    assert study.factors == case["factors"]
    assert short.factors.keys() == study.factors.keys()
    for factor, levels in short.factors.items():
        assert set(levels) <= set(study.factors[factor]), factor
        assert len(levels) >= min(4, len(study.factors[factor])), f"{factor}: too few levels for a knee"
    assert study.max_repetitions >= 3 and short.max_repetitions >= 3
    assert study.watch.calls is True and study.witness_level == "block"
    assert 2 <= sum(plan.counts_calls(short, point) for point in plan.points(short)) <= 5
    assert short.watch.monitors == study.watch.monitors


@pytest.mark.parametrize("processors", [1, 2, 3, 8, 64, 256])
def test_sweeps_of_workers_go_past_the_processors_of_every_host(
    processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relative_levels, "this_machine", lambda: Machine(processors, 2**33))
    for name, factors in SWEEPS.items():
        if "workers" in factors:
            (study,), (short,) = catalog.load(name).studies, quick(name).studies
            levels = study.factors["workers"]
            assert 1 in levels and processors in levels and max(levels) >= 2 * processors
            assert 3 <= len(levels) <= 10 and set(short.factors["workers"]) <= set(levels)


def test_the_quick_scale_loads_the_machine_for_less_than_five_minutes() -> None:
    assert sum(load_s(study) for study in quick("subsystems").studies) <= QUICK_S


def test_real_time_policies_of_stress_ng_leave_a_processor_of_three_to_the_lab() -> None:
    (study,) = catalog.load("subsystem-scheduler-rr").studies
    assert study.params["sched"] == "rr"
    assert 0 < study.params["workers"] < 3


# An open loop from what a hard disk can do to what no drive of a workstation does


def test_the_rates_are_a_geometric_series_that_any_drive_saturates_within_and_quick_runs_take_some() -> None:
    (study,), (short,) = catalog.load("load-latency").studies, quick("load-latency").studies
    rates = [int(rate) for rate in study.levels["rate_iops"]]
    assert rates[0] <= 100 and rates[-1] >= 400_000
    assert {after / before for before, after in itertools.pairwise(rates)} == {2}
    assert study.params["rate_process"] == "poisson"
    assert set(short.levels["rate_iops"]) <= set(study.levels["rate_iops"])
    trials = [plan.count(Suite(name="one", title="", studies=[each]))["load-latency"] for each in (short, study)]
    assert trials[0] < trials[1] / 2


@pytest.mark.fio
def test_rates_below_saturation_are_achieved_and_drawn(tmp_path: Path) -> None:
    words = ("run", "load-latency", "--scale", "quick", "--repetitions", "1", "--json")
    tiny = ("--factor", "rate_iops=100,200,400", "--set", "runtime=500ms", "--set", "target.size=4MiB")
    answer = ask(*words, *tiny, cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert answer.json["trials"]["ok"] == 3
    figures = answer.json["figures"]
    assert [(one["name"], one["problem"]) for one in figures] == [("load_latency", ""), ("load_latency_cdf", "")]


@pytest.mark.rocksdb
@pytest.mark.root
@pytest.mark.slow
def test_the_four_loads_are_measured_on_a_drive_that_counts(tmp_path: Path) -> None:
    words = ("run", "rocksdb", "--scale", "quick", "--repetitions", "1", "--set", "num=10000", "--json")
    narrowed = ("--factor", "target.policy=none", "--factor", "compression_type=none")
    smaller = ("--set", "write_buffer_size=131072", "--set", "target.size=128MiB")
    answer = ask(*words, *narrowed, *smaller, cwd=tmp_path, within_s=600)
    assert answer.code == 0, answer.err
    result = answer.json
    findings = [one for one in result["findings"] if one["question"] == "database"]
    assert [one["response"] for one in findings] == ["", "drive.write.bytes", "readrandom.found"]
    columns = ["condition", "fillseq", "readseq", "fillrandom", "readrandom"]
    assert findings[0]["tables"][0]["columns"] == columns
    assert findings[2]["severity"] == "info"
    for where, loads in findings[1]["statistics"]["by_load"].items():
        assert list(loads) == columns[1:], where
        whole = findings[0]["statistics"]["points"][where]
        for metric in ("drive.write.bytes", "drive.flash.bytes", "drive.read.bytes", "rocksdb.flush_bytes"):
            assert 0.99 * whole[metric] <= sum(own[metric] for own in loads.values()) <= whole[metric], (where, metric)
        assert loads["readseq"]["rocksdb.user_bytes"] == 0 < loads["fillseq"]["rocksdb.user_bytes"]
        assert loads["readrandom"]["drive.read.bytes"] > 0
    points = findings[0]["statistics"]["points"]
    assert len(points) == 2  # on a drive that is new and on one that is not
    for where, numbers in points.items():
        amplified = numbers["drive.write_amplification"] > 1.2
        assert amplified == ("precondition=steady" in where), where
        assert numbers["drive.flash.bytes"] >= numbers["drive.write.bytes"]
    (verdict,) = (one for one in result["findings"] if one["question"] == "verdict")
    told = [row for row in verdict["statistics"]["rows"] if row["claim"].startswith("RocksDB's")]
    assert len(told) == 4 and verdict["statistics"]["contradicted"] == 0
    for row in told:  # what RocksDB says of itself, what the kernel saw, what the drive counted
        assert row["numbers"]["seen_bytes"] >= row["numbers"]["claimed_bytes"] > 0
        assert row["numbers"]["drive_bytes"] > 0
    (beside,) = (one for one in result["findings"] if one["question"] == "drive")
    assert len(beside["tables"][0]["rows"]) == 4
    codes = [warning["code"] for warning in result["warnings"]]
    assert codes.count("keys-not-found") == 1  # once for all trials
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "report" / "figures" / "rocksdb_loads.svg").exists()


LONG, STANDARD, SHORT = PROFILES
STUDY = catalog.load("quick").studies[0]
WORKLOADS = len(STUDY.case)
FAST = 1e9


@given(st.floats(15, 900), st.floats(1e5, 2e10), st.integers(2**20, 2**42))
def test_a_choice_keeps_to_its_budget_or_says_that_it_does_not(budget_s: float, speed: float, free_bytes: int) -> None:
    try:
        choice = quick_study.choose(budget_s, speed, free_bytes, WORKLOADS)
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
            quick_study.choose(*given)
        return
    choice = quick_study.choose(*given)
    assert (choice.profile.name, choice.obstacle) == (case["profile"], case.get("obstacle", ""))
    assert (choice.profile == choice.wanted) is ("obstacle" not in case)


def test_profiles_take_what_their_budgets_say() -> None:
    assert [round(one.seconds(WORKLOADS, FAST)) for one in PROFILES] == [219, 51, 20]


def test_the_built_in_study_is_the_standard_profile(tmp_path: Path) -> None:
    study = catalog.load("quick", lambda table: quick_study.applied(dict(table), tmp_path, STANDARD)).studies[0]
    assert study.repetitions == STUDY.repetitions == STANDARD.repetitions
    assert study.target.model_dump()["size"] == units.parse_size(STUDY.target.model_dump()["size"])
    assert units.parse_duration_s(study.params["runtime"]) == units.parse_duration_s(STUDY.params["runtime"])


def test_files_of_runs_that_were_killed_are_told_from_those_of_living_ones(tmp_path: Path) -> None:
    for name in ("ioassay-quick-1", "ioassay-quick-4194999", "ioassay-quick-mine", "ioassay-quick-"):
        (tmp_path / name).touch()
    assert quick_study.files_of_killed(tmp_path) == [tmp_path / "ioassay-quick-4194999"]


def test_the_sample_of_the_speed_has_no_name_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SIGKILL while it is written leaves no file."""
    names: list[list[Path]] = []
    fdatasync = os.fdatasync

    def noted(descriptor: int) -> None:
        names.append(list(tmp_path.iterdir()))
        fdatasync(descriptor)

    monkeypatch.setattr(os, "fdatasync", noted)
    speed, free_bytes = quick_study.write_speed(tmp_path)
    assert speed > 0 and free_bytes > 0
    assert names and not any((*names, list(tmp_path.iterdir())))
    with pytest.raises(StudyError, match=f"{re.escape(str(tmp_path))}/none: cannot be written"):
        quick_study.write_speed(tmp_path / "none")
