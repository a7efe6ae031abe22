"""Trials that are run once more to count system calls: planned, run, skipped, told apart, never used for speeds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.drivers.null import Null
from ioassay.errors import StudyError
from ioassay.narrative.finding import Finding
from ioassay.narrative.pipeline import analyse_all
from ioassay.records.record import OK, SKIPPED
from ioassay.roles import Command, Consent, Load, Outcome, Parsed, Trial
from ioassay.runner import preflight, run
from ioassay.runner.progress import Progress
from ioassay.runner.run import Tally
from ioassay.store import frames
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog, plan
from ioassay.study.model import Study, Suite, make_study

CALLS = "import os, sys\nfor _ in range(int(sys.argv[1])): os.getppid()\nprint(1)"


class Caller(Null):
    """Makes as many calls of getppid as the factor `x` says, and claims a rate."""

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        return Command([sys.executable, "-c", CALLS, str(trial.params["x"])], timeout_s=240)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        assert outcome is not None and outcome.exit_code == 0
        told = {"processes": outcome.processes, "threads": outcome.threads, "tasks_at_once": outcome.most_alive}
        seen = {name: float(number) for name, number in told.items() if number is not None}
        return Parsed(
            OK, metrics={"value": 1000.0 if trial.calls else 1.0, "bogo_ops": float(trial.params["x"]), **seen}
        )


def study(**changes: Any) -> Study:
    watch = {"monitors": [], "calls": True, **changes.pop("watch", {})}
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 2, "factors": {"x": [3000, 5000]}}
    return make_study({**table, "watch": watch, "analysis": {"responses": ["value"]}, **changes}, "s.toml")


def suite(**changes: Any) -> Suite:
    return Suite(name="s", title="S", studies=[study(**changes)])


def execute(root: Path, made: Suite, more: Callable[[list[str]], None] = lambda _: None) -> Tally:
    benches = preflight.assemble(made, Consent())
    for bench in benches:
        bench.driver = Caller()
    preflight.ready_tools(benches)
    more([f"{warning.code}: {warning.text}" for warning in preflight.examine(benches)])
    store = RunStore.open(root) if root.exists() else RunStore.create(root, made, {})
    return run.execute(store, benches, Progress())


def counted(root: Path, made: Suite, warned: list[str]) -> tuple[Tally, Dataset, Finding]:
    """The run of a suite, its records, and what they say of calls."""
    tally = execute(root, made, warned.extend)
    found = frames.load(RunStore.open(root))
    (finding,) = [finding for finding in analyse_all(found) if finding.question == "calls"]
    return tally, found, finding


def test_one_trial_more_a_point_follows_its_first_repetition() -> None:
    trials = list(plan.trials(suite()))
    assert [trial.calls for trial in trials] == [False, True, False, True, False, False]
    for first, counting in (trials[:2], trials[2:4]):
        assert (first.point, first.repetition, first.seed) == (counting.point, counting.repetition, counting.seed)
        assert first.id != counting.id
    assert [trial.order for trial in trials] == list(range(6))


def test_other_trials_are_called_as_they_are_without_it_and_run_in_the_same_order() -> None:
    plain = [trial.id for trial in plan.trials(suite(watch={"calls": False}))]
    assert plain == [trial.id for trial in plan.trials(suite()) if not trial.calls]
    twins = [trial.id for trial in plan.trials(suite(watch={"calls": False, "twins": True}))]
    both = list(plan.trials(suite(watch={"twins": True})))
    assert twins == [trial.id for trial in both if not trial.calls]
    assert [trial.calls for trial in both[:6]] == [False, False, True, False, False, True]


def test_counts_and_forecast_know_them() -> None:
    made = suite()
    (bench,) = preflight.assemble(made, Consent())
    assert plan.count(made) == {"s": 6}
    assert preflight.forecast(bench).trials == 6
    some = suite(watch={"calls": {"x": [5000, 7]}})
    assert plan.count(some) == {"s": 5}
    (counting,) = [trial for trial in plan.trials(some) if trial.calls]
    assert counting.point == {"x": 5000}


def test_levels_of_what_is_no_factor_are_refused() -> None:
    with pytest.raises(StudyError, match=r"watch\.calls: 'workers' is no factor of the study; expected one of x"):
        study(watch={"calls": {"workers": [1]}})
    with pytest.raises(StudyError, match="expected true: the study has no factors"):
        study(factors={}, watch={"calls": {"x": [1]}})


def test_a_scale_may_count_at_other_points() -> None:
    table = {"watch": {"interval": "1s", "calls": True}, "scale": {"quick": {"watch": {"calls": {"x": [1]}}}}}
    assert catalog.scaled(table, "quick") == {"watch": {"interval": "1s", "calls": {"x": [1]}}}
    assert catalog.scaled(table, "full")["watch"]["calls"] is True


def test_what_is_computed_makes_no_calls_of_its_own() -> None:
    with pytest.raises(StudyError, match="computes, in a process that is not its own"):
        preflight.examine(preflight.assemble(suite(driver="null_pure"), Consent()))


@pytest.mark.bpf
def test_calls_are_counted_and_speeds_left_alone(tmp_path: Path) -> None:
    tally, found, finding = counted(tmp_path / "run", suite(), [])
    assert (tally.planned, tally.ok) == (6, 6)
    assert found.trials["value"].to_list() == [1.0] * 4
    assert found.counting is not None and found.counting["value"].to_list() == [1000.0] * 2
    for trials in (found.trials, found.counting):  # the others are watched at level block
        assert trials.select("processes", "threads", "tasks_at_once").unique().rows() == [(1, 0, 1)]
    getppid = found.calls.filter(name="getppid").sort("x")
    assert getppid.select("x", "count", "errors", "by").rows() == [(3000, 3000, 0, "bpf"), (5000, 5000, 0, "bpf")]
    assert (getppid["per_second"] > 0).all()
    assert found.calls.columns == ["study", "trial", "x", "name", "count", "errors", "per_second", "by"]
    assert [point["point"]["x"] for point in finding.statistics["points"]] == [3000, 5000]
    again = execute(tmp_path / "run", suite())
    assert (again.planned, again.ok) == (6, 6)


@pytest.mark.bpf
def test_a_study_watched_at_that_level_has_the_calls_of_all_its_trials(tmp_path: Path) -> None:
    execute(tmp_path / "run", suite(watch={"calls": False, "witness": "syscalls"}))
    found = frames.load(RunStore.open(tmp_path / "run"))
    assert found.counting is None
    assert sorted(found.calls.filter(name="getppid")["count"]) == [3000, 3000, 5000, 5000]


@pytest.mark.strace
def test_where_bpf_cannot_count_strace_does_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    warned: list[str] = []
    tally, found, finding = counted(tmp_path / "run", suite(), warned)
    assert tally.ok == 6
    assert [text for text in warned if text.startswith("calls-by-strace: s: system calls are counted by strace")]
    getppid = found.calls.filter(name="getppid")
    assert sorted(getppid["count"]) == [3000, 5000] and set(getppid["by"]) == {"strace"}
    assert {point["by"] for point in finding.statistics["points"]} == {"strace"}


def test_where_nothing_can_count_the_trial_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    monkeypatch.setattr("ioassay.packs.strace.observer.unusable", lambda: "there is no strace on PATH")
    warned: list[str] = []
    tally, found, finding = counted(tmp_path / "run", suite(), warned)
    assert (tally.planned, tally.ok, tally.skipped) == (6, 4, 2)
    assert [text for text in warned if text.startswith("calls-uncounted: s: ")]
    assert found.counting is not None and set(found.counting["status"]) == {SKIPPED}
    (reason,) = set(found.counting["reason"])
    assert "BPF is forbidden here" in reason and "there is no strace on PATH" in reason
    assert finding.severity == "warning" and finding.statistics["points"] == []


def test_an_old_plan_and_old_records_have_no_such_trials(tmp_path: Path) -> None:
    execute(tmp_path / "run", suite(repetitions=1, watch={"calls": False}))
    path = tmp_path / "run" / "plan.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "calls"}) + "\n" for line in lines))
    for record in (tmp_path / "run").glob("trials/*/record.json"):
        table = json.loads(record.read_text())
        del table["trial"]["calls"]
        record.write_text(json.dumps(table))
    found = frames.load(RunStore.open(tmp_path / "run"))
    assert found.trials.height == 2 and found.counting is None and found.calls.is_empty()
