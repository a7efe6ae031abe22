"""The confirmation's trials: fresh, interleaved, and none where there is nothing to confirm."""

from __future__ import annotations

from typing import Any

from ioassay.study import plan
from ioassay.tune.confirmation import confirmation, repetitions_for

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


def test_a_default_that_won_has_nothing_to_be_compared_with(lab: Any) -> None:
    assert confirmation(lab.study(), DEFAULT, dict(DEFAULT), 5, []) == []


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
