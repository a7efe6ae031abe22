"""From study to trials: points, blocks, seeds and ids."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ioassay.study import plan
from ioassay.study.model import Study, Suite, make_study


def study(**changes: Any) -> Study:
    return make_study({"name": "s", "title": "S", "driver": "null", "repetitions": 3, **changes}, "s.toml")


def suite(*studies: Study) -> Suite:
    return Suite(name="suite", title="Suite", studies=list(studies))


def test_factors_give_their_cross_product_in_the_studys_order() -> None:
    found = plan.points(study(factors={"rw": ["read", "write"], "bs": ["4k", "8k"]}))
    assert found == [
        {"rw": "read", "bs": "4k"},
        {"rw": "read", "bs": "8k"},
        {"rw": "write", "bs": "4k"},
        {"rw": "write", "bs": "8k"},
    ]


def test_cases_are_a_factor_that_sets_several_parameters() -> None:
    made = study(case=[{"name": "a", "bs": "4k", "target.size": "1M"}, {"name": "b"}], factors={"rw": ["read"]})
    assert plan.points(made) == [{"case": "a", "rw": "read"}, {"case": "b", "rw": "read"}]
    trial = plan.make_trial(made, {"case": "a", "rw": "read"}, 0, 0)
    assert trial.params == {"bs": "4k", "rw": "read"}
    assert trial.target["size"] == "1M"


def test_a_study_without_factors_has_one_point() -> None:
    assert plan.points(study()) == [{}]


def test_dotted_factors_reach_target_and_run() -> None:
    made = study(factors={"target.size": ["1M"], "run.cooldown": [2]}, params={"a": 1})
    trial = next(plan.trials(suite(made)))
    assert (trial.target["size"], trial.run["cooldown"], trial.params) == ("1M", 2, {"a": 1})


@given(st.integers(0, 2**63 - 1), st.integers(1, 5), st.integers(1, 12))
def test_each_repetition_runs_every_point_once(seed: int, repetitions: int, levels: int) -> None:
    made = study(seed=seed, repetitions=repetitions, factors={"x": list(range(levels))})
    trials = list(plan.trials(suite(made)))
    assert [trial.order for trial in trials] == list(range(repetitions * levels))
    for repetition in range(repetitions):
        block = trials[repetition * levels : (repetition + 1) * levels]
        assert {trial.repetition for trial in block} == {repetition}
        assert sorted(trial.point["x"] for trial in block) == list(range(levels))


def test_the_order_is_shuffled_and_differs_between_blocks() -> None:
    trials = list(plan.trials(suite(study(factors={"x": list(range(20))}))))
    blocks = [[trial.point["x"] for trial in trials if trial.repetition == number] for number in range(3)]
    assert blocks[0] != sorted(blocks[0])
    assert blocks[0] != blocks[1] != blocks[2]


def test_the_same_study_gives_the_same_plan_and_another_seed_another_one() -> None:
    made, same = (list(plan.trials(suite(study(factors={"x": [1, 2, 3]})))) for _ in range(2))
    assert made == same
    other = list(plan.trials(suite(study(factors={"x": [1, 2, 3]}, seed=2))))
    assert not {trial.id for trial in made} & {trial.id for trial in other}


def test_seeds_and_ids_are_fresh_for_each_point_and_repetition() -> None:
    trials = list(plan.trials(suite(study(factors={"x": list(range(50))}, repetitions=10))))
    assert len({trial.id for trial in trials}) == len({trial.seed for trial in trials}) == 500


def test_conditions_of_a_run_that_vary_are_read_as_those_of_the_study() -> None:
    made = study(factors={"run.timeout": ["2m"], "run.cooldown": [0, "500ms"]})
    runs = [plan.make_trial(made, point, 0, 0).run for point in plan.points(made)]
    assert [(run["timeout"], run["cooldown"]) for run in runs] == [(120.0, 0.0), (120.0, 0.5)]


def test_calls_are_counted_at_a_level_however_it_is_spelled() -> None:
    made = study(factors={"bs": ["4k", "8k"]}, watch={"witness": "block", "calls": {"bs": ["4KiB"]}})
    assert plan.points_called(made) == [{"bs": "4k"}]


def test_an_id_does_not_depend_on_the_order() -> None:
    made = study()
    assert plan.make_trial(made, {}, 0, 0).id == plan.make_trial(made, {}, 0, 7).id


def test_counts_are_those_of_the_plan() -> None:
    made = suite(study(factors={"x": [1, 2]}), study(name="t"))
    assert plan.count(made) == {"s": 6, "t": 3}
    assert sum(plan.count(made).values()) == len(list(plan.trials(made)))


def test_twins_run_side_by_side_in_an_order_that_is_drawn() -> None:
    made = study(factors={"x": list(range(20))}, watch={"witness": "syscalls", "twins": True})
    trials = list(plan.trials(suite(made)))
    assert plan.count(suite(made)) == {"s": len(trials)} == {"s": 120}
    pairs = list(zip(trials[::2], trials[1::2], strict=True))
    assert all(one.point == other.point and one.seed == other.seed and one.id != other.id for one, other in pairs)
    assert {(one.twin, other.twin) for one, other in pairs} == {(False, True), (True, False)}


def test_a_trial_is_called_the_same_with_and_without_twins() -> None:
    plain = {trial.id for trial in plan.trials(suite(study()))}
    traced = plan.trials(suite(study(watch={"witness": "syscalls", "twins": True})))
    assert plain == {trial.id for trial in traced if not trial.twin}


def test_hosts_are_a_factor_that_sets_no_parameter() -> None:
    made = study(run={"hosts": ["a", "b"]}, params={"rw": "read"})
    assert made.hosts == ("a", "b")
    assert plan.points(made) == [{"host": "a"}, {"host": "b"}]
    trial = plan.make_trial(made, {"host": "b"}, 0, 0)
    assert trial.params == {"rw": "read"}
    assert "hosts" not in trial.run


def test_hosts_read_from_text_are_names() -> None:
    assert study(run={"hosts": "a, b"}).hosts == ("a", "b")


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
