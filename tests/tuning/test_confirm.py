"""The confirmation's trials: fresh, interleaved, and for the next best point where a constraint breaks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioassay.analysis.optimum import tuning
from ioassay.analysis.optimum.tuning import Outcome, Tuned
from ioassay.drivers.null import Null
from ioassay.roles import Parsed, Trial
from ioassay.store import frames
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.tuning.confirmation import confirmation, repetitions_for

WINNER, DEFAULT = {"x": 3, "y": "b"}, {"x": 1, "y": "a"}


def test_winner_and_default_run_side_by_side_in_blocks_of_a_drawn_order(lab: Any) -> None:
    study = lab.study()
    trials = confirmation(study, WINNER, DEFAULT, 12, [])
    blocks = [trials[place : place + 2] for place in range(0, 24, 2)]
    assert all({str(trial.point) for trial in block} == {str(WINNER), str(DEFAULT)} for block in blocks)
    assert all(len({trial.repetition for trial in block}) == 1 for block in blocks)
    assert len({str(block[0].point) for block in blocks}) == 2
    assert {trial.search for trial in trials} == {"confirm"}


def test_no_repetition_of_the_search_is_used_again(lab: Any) -> None:
    study = lab.study()
    before = [plan.make_trial(study, WINNER, repetition, repetition) for repetition in range(4)]
    before.append(plan.make_trial(study, DEFAULT, 0, 4))
    trials = confirmation(study, WINNER, DEFAULT, 3, before)
    assert not {trial.id for trial in trials} & {trial.id for trial in before}
    assert not {trial.seed for trial in trials} & {trial.seed for trial in before}
    assert [trial.order for trial in trials] == [5, 6, 7, 8, 9, 10]


def test_the_same_search_is_confirmed_by_the_same_trials(lab: Any) -> None:
    study = lab.study()
    assert confirmation(study, WINNER, DEFAULT, 5, []) == confirmation(study, WINNER, DEFAULT, 5, [])


def test_the_repetitions_follow_the_scatter_of_the_search_and_the_margin() -> None:
    assert repetitions_for([[100.0, 100.0]], 0.05) == 0
    assert repetitions_for([], 0.05) == 0
    quiet, noisy = [[99.0, 101.0], [198.0, 202.0]], [[90.0, 110.0], [180.0, 220.0]]
    assert repetitions_for(noisy, 0.05) == 62 and repetitions_for(quiet, 0.05) == 1
    assert repetitions_for(noisy, 0.1) == 16


def test_a_noisy_search_is_confirmed_by_more_repetitions_up_to_the_bound(lab: Any) -> None:
    counts = []
    for place, (noise, most) in enumerate(((0.005, 9), (0.2, 9), (0.2, 0))):
        study = lab.study(params={"noise": noise})
        store = lab.begin(study, lab.asked(study, confirm_most=most), f"run{place}")
        lab.go_on(f"run{place}")
        counts.append(sum(trial.search == "confirm" for trial in store.trials()))
    assert counts == [6, 18, 6]


def constrained(lab: Any, monkeypatch: pytest.MonkeyPatch, costly: int) -> RunStore:
    """A search whose `costly` best points have a short latency while it runs, and one of 6 ms in the confirmation."""
    parse, best = Null.parse, [{"x": 3, "y": "b"}, {"x": 4, "y": "b"}, {"x": 2, "y": "b"}, {"x": 3, "y": "a"}][:costly]

    def noisy(self: Null, trial: Trial, outcome: Any, raw: Path) -> Parsed:
        parsed = parse(self, trial, outcome, raw)
        beyond = trial.search == "confirm" and dict(trial.point) in best
        return replace(parsed, metrics={**parsed.metrics, "read.lat.p99": 6e6 if beyond else 1e6})

    monkeypatch.setattr(Null, "parse", noisy)
    study = lab.study(params={"noise": 0.002})
    return lab.begin(study, lab.asked(study, subject_to=("read.lat.p99 < 5ms",), trials=25))


def judged(store: RunStore) -> Tuned:
    records = frames.load(store)
    (answer,) = tuning.analyse(records, records.studies[0])
    return answer


@pytest.mark.parametrize("costly", [1, 2])
def test_the_next_best_is_confirmed_where_the_best_violates_a_constraint(
    lab: Any, monkeypatch: pytest.MonkeyPatch, costly: int
) -> None:
    store = constrained(lab, monkeypatch, costly)
    lab.go_on()
    answer = judged(store)
    winner = [{"x": 4, "y": "b"}, {"x": 2, "y": "b"}][costly - 1]
    assert [one.point for one in answer.dropped] == [{"x": 3, "y": "b"}, {"x": 4, "y": "b"}][:costly]
    assert answer.winner is not None and (answer.winner.point, answer.outcome) == (winner, Outcome.IMPROVED)
    assert answer.counts["confirm"] == 6 * (costly + 1)
    assert answer.default is not None and (answer.default.n, answer.winner.n) == (3, 3)
    before = lab.outcome()
    lab.go_on()
    assert lab.outcome() == before


def test_no_winner_is_named_where_three_candidates_violate_a_constraint(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = constrained(lab, monkeypatch, 4)
    lab.go_on()
    answer = judged(store)
    assert (answer.outcome, answer.feasible, len(answer.dropped)) == (Outcome.VIOLATION, False, 3)
    assert answer.counts["confirm"] == 18


def test_no_other_candidate_is_confirmed_after_the_budget_even_by_a_resumed_search(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = constrained(lab, monkeypatch, 1)
    asked = json.loads((store.root / "tune.json").read_text())
    (store.root / "tune.json").write_text(json.dumps({**asked, "budget_s": 60.0}))
    seconds = iter(range(0, 10_000, 2))
    lab.go_on(clock=lambda: float(next(seconds)) + 60 * (len(list(store.trials())) > 25))
    assert (judged(store).outcome, len(judged(store).dropped)) == (Outcome.VIOLATION, 1)
    lab.go_on(clock=lambda: 0.0)
    assert judged(store).counts["confirm"] == 6
