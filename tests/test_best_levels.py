"""A suite whose study takes the best level of an earlier one: a stand-in until then, the level and its ids after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from ioassay.api.progress import Progress
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.records.record import OK, SKIPPED
from ioassay.roles import Consent, Trial
from ioassay.runner import preflight, run
from ioassay.store.run_folder import RunStore
from ioassay.study import catalog, earlier_best, plan
from ioassay.study.model import Suite

from .corpora import cases

BEST = "best of sweep"


class Watching(Progress):
    """Counts the trials that began, and stops the run after so many."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.began: list[Trial] = []
        self._stop_after = stop_after

    def started(self, trial: Trial) -> None:
        if len(self.began) == self._stop_after:
            raise KeyboardInterrupt
        self.began.append(trial)


def suite(tmp_path: Path, **sweep: Any) -> Suite:
    """`sweep` is best at 4 steps; `after` takes that as its own steps."""
    effects = {"steps": {"1": 0.5, "2": 0.8, "4": 1.0, "8": 0.7}}
    first: dict[str, Any] = {
        "name": "sweep",
        "title": "sweep",
        "driver": "null",
        "repetitions": 3,
        "params": {"effects": effects, "noise": 0.001},
        "factors": {"steps": [1, 2, 4, 8]},
        "analysis": {"responses": ["value"]},
    }
    first |= {key: {**first.get(key, {}), **part} if isinstance(part, dict) else part for key, part in sweep.items()}
    after = {"name": "after", "title": "after", "driver": "null", "repetitions": 2}
    after |= {"params": {"steps": BEST}, "factors": {"requests": [10, 20]}}
    path = tmp_path / "both.toml"
    path.write_text(tomli_w.dumps({"title": "both", "study": [first, after]}))
    return catalog.load(str(path))


def execute(store: RunStore, shown: Watching | None = None) -> run.Tally:
    benches = preflight.assemble(store.suite(), Consent())
    return run.execute(store, benches, shown or Watching(), 1)


def begun(tmp_path: Path, **keys: Any) -> RunStore:
    return RunStore.create(tmp_path / "run", suite(tmp_path, **keys), {})


def records_of(store: RunStore, study: str) -> list[Any]:
    return [record for record in store.records() if record.trial["study"] == study]


def test_planning_has_a_stand_in_and_no_trials_of_the_waiting_study(tmp_path: Path) -> None:
    made = suite(tmp_path)
    (_, after) = made.studies
    assert after.params["steps"] == 1 and after.relative is not None
    assert after.relative.pending == {"steps": BEST}
    assert earlier_best.references(after) == [earlier_best.Reference("steps", "sweep", "")]
    assert {trial.study for trial in plan.known_trials(made)} == {"sweep"} and plan.count(made)["after"] == 4


def test_the_level_is_that_of_the_earlier_study_in_plan_records_and_study(tmp_path: Path) -> None:
    store = begun(tmp_path)
    tally = execute(store)
    assert (tally.planned, tally.ok) == (16, 16)
    after = [trial for trial in store.trials() if trial.study == "after"]
    assert {trial.params["steps"] for trial in after} == {4}
    assert [trial.order for trial in store.trials()] == list(range(16))
    study = store.suite().studies[1]
    assert study.params["steps"] == 4 and study.relative is not None
    assert study.relative.pending == {} and study.relative.written == {"params.steps": BEST}
    assert not [warning for record in records_of(store, "after") for warning in record.warnings]


def test_ids_follow_the_level_as_if_it_had_been_written(tmp_path: Path) -> None:
    store = begun(tmp_path)
    execute(store)
    table = catalog.to_table(store.suite())
    table["study"][1].pop("relative")
    plain = catalog.from_table(table, tmp_path / "plain.toml", stored=True)
    assert [trial.id for trial in plan.trials(plain)] == [trial.id for trial in store.trials()]


@pytest.mark.parametrize("stop_after", [0, 5, 12, 13, 15])
def test_a_resumed_run_has_the_same_trials_and_runs_none_twice(tmp_path: Path, stop_after: int) -> None:
    whole = RunStore.create(tmp_path / "whole", suite(tmp_path), {})
    execute(whole)
    store, first, second = begun(tmp_path), Watching(stop_after), Watching()
    with pytest.raises(KeyboardInterrupt):
        execute(store, first)
    execute(store, second)
    assert [trial.id for trial in store.trials()] == [trial.id for trial in whole.trials()]
    ran = [trial.id for trial in (*first.began, *second.began)]
    assert len(ran) == len(set(ran)) == 16


def test_a_run_that_was_killed_between_study_and_plan_goes_on(tmp_path: Path) -> None:
    whole, store = RunStore.create(tmp_path / "whole", suite(tmp_path), {}), begun(tmp_path)
    execute(whole)
    store.replace_suite(whole.suite())
    execute(store)
    assert [trial.id for trial in store.trials()] == [trial.id for trial in whole.trials()]


def test_without_a_distinguishable_best_the_smallest_level_is_taken_and_said(tmp_path: Path) -> None:
    store = begun(tmp_path, params={"effects": {"steps": {"1": 0.5, "2": 1.0, "4": 1.001, "8": 1.0}}})
    execute(store)
    records = records_of(store, "after")
    assert store.suite().studies[1].params["steps"] == 2
    assert all(record.status == OK for record in records)
    (text,) = {warning.text for record in records for warning in record.warnings}
    assert text == "steps = 2 is the smallest of 2, 4, 8, which are as good or may be, for value in sweep"


@pytest.mark.parametrize("driver", ["null", "null_pure"])
def test_a_failed_study_makes_the_later_one_skipped_with_the_reason(tmp_path: Path, driver: str) -> None:
    store = begun(tmp_path, driver=driver, params={"fail_share": 1.0})
    tally = execute(store)
    assert (tally.failed, tally.skipped) == (12, 4)
    records = records_of(store, "after")
    assert {record.status for record in records} == {SKIPPED}
    assert {record.reason for record in records} == {"steps = best of sweep: no trial of that study tells a best level"}
    again = Watching()
    assert execute(store, again).skipped == 4 and not again.began


def test_a_later_study_that_the_level_does_not_suit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = begun(tmp_path)
    benches = preflight.assemble(store.suite(), Consent())

    def refuse(params: Any, target: Any) -> Any:
        raise StudyError(f"{params['steps']} steps are too many", key="steps")

    monkeypatch.setattr(benches[1].driver, "validate", refuse)
    run.execute(store, benches, Watching(), 1)
    assert {record.reason for record in records_of(store, "after")} == {"steps: 4 steps are too many"}


@cases("studies", "best_levels")
def test_a_wrong_reference_names_key_and_value(tmp_path: Path, case: dict[str, Any]) -> None:
    least = {"title": "x", "driver": "null"}
    table = {**least, **case.get("alone", {})}
    if "after" in case:
        sweep = {**least, "name": "sweep", "analysis": {"responses": ["value"]}}
        sweep["factors"] = case.get("factors", {"steps": [1, 2]})
        table = {"title": "x", "study": [sweep, {**least, "name": "after", **case["after"]}]}
    path = tmp_path / "alone.toml"
    path.write_text(tomli_w.dumps(table))
    if "says" in case:
        with pytest.raises(StudyError, match=case["says"]):
            catalog.load(str(path))
    else:
        (study,) = catalog.load(str(path)).studies
        assert study.params == case["alone"]["params"] and study.relative is None


def test_a_suite_whose_study_waits_for_another_cannot_stop_after_a_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="after: takes the best level of an earlier study, .* without --blocks"):
        Study.of_suite(suite(tmp_path)).run(tmp_path / "run", blocks=1)
