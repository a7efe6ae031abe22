"""From study to trials: points, blocks, seeds and ids."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ioassay.study import plan
from ioassay.study.model import Study, Suite, make_study

from .corpora import cases, has


def study(**changes: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", "repetitions": 3, **changes}, "s.toml")


def suite(*studies: Study) -> Suite:
    return Suite(name="suite", title="Suite", studies=list(studies))


@cases("studies", "plans")
def test_a_study_has_the_points_and_trials_of_its_row(case: dict[str, Any]) -> None:
    made = study(**case["study"])
    assert plan.points(made) == case["points"]
    trial = plan.make_trial(made, plan.points(made)[-1], 0, 0)
    assert has({"params": trial.params, "target": trial.target, "run": trial.run}, case.get("trial", {}))
    assert trial.params.keys() == case.get("trial", {}).get("params", {}).keys()
    assert "hosts" not in trial.run
    assert [point for point in plan.points(made) if plan.counts_calls(made, point)] == case.get("called", [])
    assert list(made.hosts) == case.get("hosts", [])


@given(st.integers(0, 2**62), st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_each_repetition_runs_every_point_once_with_ids_and_seeds_of_its_own(
    seed: int, repetitions: int, levels: int, twins: bool
) -> None:
    """Twins run side by side."""
    watch = {"witness": "syscalls", "twins": True} if twins else {}
    made = study(seed=seed, repetitions=repetitions, factors={"x": list(range(levels))}, watch=watch)
    trials = list(plan.trials(suite(made)))
    assert trials == list(plan.trials(suite(made)))
    assert plan.count(suite(made, study(name="t"))) == {"s": len(trials), "t": 3}
    assert [trial.order for trial in trials] == list(range(repetitions * levels * (1 + twins)))
    for repetition in range(repetitions):
        block = [trial for trial in trials if trial.repetition == repetition]
        assert sorted(trial.point["x"] for trial in block[:: 1 + twins]) == list(range(levels))
    assert len({trial.id for trial in trials}) == len(trials)
    assert len({trial.seed for trial in trials}) == repetitions * levels
    for one, other in zip(trials[::2], trials[1::2], strict=True) if twins else ():
        assert (one.point, one.seed, one.twin) == (other.point, other.seed, not other.twin)
    other = plan.trials(suite(study(seed=seed + 1, repetitions=repetitions, factors={"x": list(range(levels))})))
    assert not {trial.id for trial in trials} & {trial.id for trial in other}


def test_the_order_of_twins_is_drawn() -> None:
    made = study(factors={"x": list(range(20))}, watch={"witness": "syscalls", "twins": True})
    assert {trial.twin for trial in list(plan.trials(suite(made)))[::2]} == {False, True}


def test_the_order_is_shuffled_and_differs_between_blocks() -> None:
    trials = list(plan.trials(suite(study(factors={"x": list(range(20))}))))
    blocks = [[trial.point["x"] for trial in trials if trial.repetition == number] for number in range(3)]
    assert blocks[0] != sorted(blocks[0])
    assert blocks[0] != blocks[1] != blocks[2]


def test_an_id_does_not_depend_on_the_order() -> None:
    made = study()
    assert plan.make_trial(made, {}, 0, 0).id == plan.make_trial(made, {}, 0, 7).id


def test_a_trial_is_called_the_same_with_and_without_twins() -> None:
    plain = {trial.id for trial in plan.trials(suite(study()))}
    traced = plan.trials(suite(study(watch={"witness": "syscalls", "twins": True})))
    assert plain == {trial.id for trial in traced if not trial.twin}


def test_hosts_that_measure_together_are_one_after_the_other_in_the_plan() -> None:
    made = study(
        run={"hosts": ["a", "b", "c"], "together": True},
        factors={"bs": ["4k", "8k", "16k"]},
        watch={"twins": True, "calls": {"bs": ["8k"]}},
    )
    trials = list(plan.trials(suite(made)))
    assert len(trials) == 3 * 3 * 3 * 2 + 3
    for first in range(0, len(trials), 3):
        group = trials[first : first + 3]
        assert sorted(str(trial.point["host"]) for trial in group) == ["a", "b", "c"]
        assert len({plan.instant(trial) for trial in group}) == 1
    assert len({plan.instant(trial) for trial in trials}) == len(trials) // 3


def test_a_trial_of_one_host_alone_shares_no_instant() -> None:
    made = study(run={"hosts": ["a", "b"]})
    assert {plan.instant(trial) for trial in plan.trials(suite(made))} == {""}


def test_naming_hosts_changes_no_other_trial() -> None:
    here, there = study(), study(run={"together": False})
    assert [trial.id for trial in plan.trials(suite(here))] == [trial.id for trial in plan.trials(suite(there))]
