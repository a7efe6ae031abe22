"""The result of a search: the winner by its new repetitions only, the constraints, and no claim without proof."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from ioassay.analysis import condition_comparison
from ioassay.analysis.measurements.cells import cells
from ioassay.packs.tuning.questions import tuned
from ioassay.packs.tuning.questions.tuned import Outcome, Tuned
from ioassay.stats.contrasts import Ratio
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

METRIC = "read.iops"
WINNER, DEFAULT = {"iodepth": 8, "bs": "64k"}, {"iodepth": 1, "bs": "4k"}
LATENCY = {"metric": "read.lat.p99", "sense": "<", "bound": 5e6, "text": "read.lat.p99 < 5ms"}


def trial(order: int, search: str, point: Mapping[str, Any], value: float | None, p99: float = 1e6) -> dict[str, Any]:
    return {
        "study": "s",
        "trial": f"{order:016x}",
        "status": "failed" if value is None else "ok",
        "reason": "" if value is not None else "the tool crashed",
        "repetition": order,
        "order": order,
        "started_unix_s": 1.0 + order,
        "duration_s": 1.0,
        "search": search,
        **point,
        METRIC: value,
        "read.lat.p99": p99,
    }


def searched(
    lab: Any,
    confirmed: Sequence[tuple[float, float]],
    *,
    p99: Sequence[float] = (1e6,) * 5,
    default_p99: Sequence[float] = (1e6,) * 5,
    searched_rows: Sequence[dict[str, Any]] | None = None,
    params: Mapping[str, Any] | None = None,
    **tuning: Any,
) -> tuple[Dataset, Study]:
    """A search whose own trials flatter the winner; `confirmed` are pairs of default and winner."""
    factors = {"iodepth": [1, 2, 4, 8], "bs": ["4k", "64k"]}
    study = lab.study("s", factors=factors, responses=[METRIC], questions=["tuned"], params=dict(params or {}))
    own = searched_rows
    if own is None:
        own = [
            trial(0, "default", DEFAULT, 100.0),
            trial(1, "explore", WINNER, 900.0),
            trial(2, "pruned", {"iodepth": 2, "bs": "4k"}, 20.0),
            trial(3, "explore", {"iodepth": 4, "bs": "4k"}, None),
            trial(4, "repeat", WINNER, 950.0),
        ]
    rows = list(own)
    for (default, winner), latency, other in zip(confirmed, p99, default_p99, strict=False):
        rows.append(trial(len(rows), "confirm", DEFAULT, default, other))
        rows.append(trial(len(rows), "confirm", WINNER, winner, latency))
    table = {
        "metric": METRIC,
        "maximize": True,
        "constraints": [],
        "default": DEFAULT,
        "points": 8,
        "margin": 0.05,
        "found": {"ended": "trials", "asked": 5, "winner": WINNER, "feasible": True},
        **tuning,
    }
    empty = lab.records(lab.run(study, lambda point, repetition: {}, repetitions=1))
    return dataclasses.replace(empty, trials=pl.DataFrame(rows, infer_schema_length=None), tuning=table), study


GAIN = [(100, 149), (101, 151), (99, 150), (100, 152), (102, 148)]


def result(lab: Any, *args: Any, **keys: Any) -> Tuned:
    return tuned.measure(*searched(lab, *args, **keys))


def verdicts(bounds: Sequence[tuned.Bound]) -> list[str]:
    return [bound.verdict for bound in bounds]


def test_a_gain_is_judged_by_the_new_repetitions_and_not_by_those_of_the_search(lab: Any) -> None:
    ours = result(lab, GAIN)
    assert ours.winner is not None and ours.row is not None and isinstance(ours.row.ratio, Ratio)
    assert (ours.winner.point, ours.winner.mean, ours.winner.fresh) == (WINNER, 150.0, True)
    assert ours.row.ratio.ratio == pytest.approx(150 / 100.4)
    assert ours.verdict == tuned.IMPROVED and ours.confirmed and ours.outcome == Outcome.IMPROVED


def test_the_verdict_is_that_of_a_comparison_of_two_runs(lab: Any) -> None:
    records, study = searched(lab, GAIN)
    ours = tuned.measure(records, study)
    default, winner = cells(records, study, METRIC).cells
    assert ours.row == condition_comparison.judged_pairs(study.name, METRIC, [(default, winner)])[0]
    assert ours.row is not None and ours.row.verdict == condition_comparison.Verdict.FASTER


def test_trials_are_counted_by_what_they_were_for(lab: Any) -> None:
    ours = result(lab, GAIN)
    assert ours.counts == {
        "default": 1,
        "explore": 1,
        "refine": 0,
        "repeat": 1,
        "short": 0,
        "pruned": 1,
        "failed": 1,
        "confirm": 10,
    }
    assert (ours.points, ours.tried) == (8, 4)


UNPROVED = [(100, 150), (50, 60), (150, 240), (80, 70), (120, 160)]
COST = [(100, 70), (101, 71), (99, 70), (100, 72), (102, 69)]
BEYOND = (7e6, 6e6, 8e6, 7e6, 6e6)


@pytest.mark.parametrize(
    ("confirmed", "verdict"),
    [
        (COST, Outcome.WORSE),
        ([(100, 100), (101, 101), (100, 100.5), (100, 101), (101, 100)], Outcome.NO_DIFFERENCE),
        (UNPROVED, Outcome.UNDECIDED),
    ],
)
def test_no_gain_is_claimed_that_is_not_proved(lab: Any, confirmed: Any, verdict: Outcome) -> None:
    ours = result(lab, confirmed)
    assert (ours.outcome, ours.verdict, ours.confirmed) == (verdict, verdict.value, False)


def test_the_margin_decides_which_gain_counts(lab: Any) -> None:
    one_percent = [(100.0, 101.0), (100.01, 101.01), (99.99, 100.99)]
    assert result(lab, one_percent).outcome == Outcome.NO_DIFFERENCE
    assert result(lab, one_percent, margin=0.005).outcome == Outcome.IMPROVED


def test_less_is_an_improvement_where_the_search_minimizes(lab: Any) -> None:
    less = [(winner, default) for default, winner in GAIN]
    assert result(lab, less, maximize=False).outcome == Outcome.IMPROVED
    assert result(lab, GAIN, maximize=False).outcome == Outcome.WORSE


@pytest.mark.parametrize(
    ("p99", "verdict"),
    [
        ((1e6, 1.1e6, 1.2e6, 1e6, 1.1e6), "kept"),
        ((4e6, 5.5e6, 4.2e6, 4.9e6, 4.4e6), "undecided"),
        ((7e6, 6e6, 8e6, 7e6, 6e6), "broken"),
    ],
)
def test_a_constraint_holds_where_its_whole_interval_does(lab: Any, p99: Sequence[float], verdict: str) -> None:
    ours = result(lab, GAIN, p99=p99, constraints=[LATENCY])
    assert verdicts(ours.bounds) == [verdict]
    wanted = {"kept": Outcome.IMPROVED, "undecided": Outcome.IMPROVED_OUTSIDE, "broken": Outcome.VIOLATION}
    assert (ours.outcome, ours.feasible) == (wanted[verdict], verdict != "broken")


def test_no_lower_bound_keeps_a_constraint_and_one_beyond_it_breaks_it(lab: Any) -> None:
    for p99, verdict in ((1e6, "undecided"), (7e6, "broken")):
        ours = result(lab, GAIN, p99=(p99,) * 5, constraints=[LATENCY], params={"rate_iops": 1000})
        assert verdicts(ours.bounds) == [verdict]


def test_a_default_that_violates_a_constraint_is_no_alternative(lab: Any) -> None:
    ours = result(lab, COST, default_p99=BEYOND, constraints=[LATENCY])
    assert ours.verdict == tuned.WORSE and ours.confirmed and ours.default_out
    assert verdicts(ours.default_bounds) == ["broken"] and ours.default_bounds[0].mean == pytest.approx(6.8e6)
    assert ours.outcome == Outcome.REPLACES_DEFAULT


def test_a_winner_that_violates_the_constraint_as_well_is_not_confirmed(lab: Any) -> None:
    ours = result(lab, COST, p99=BEYOND, default_p99=BEYOND, constraints=[LATENCY])
    assert (ours.confirmed, ours.default_out, verdicts(ours.bounds)) == (False, True, ["broken"])


def test_constraints_are_judged_of_gains_that_are_not_proved_too(lab: Any) -> None:
    ours = result(lab, UNPROVED, p99=BEYOND, default_p99=(1e6, 9e6, 9e6, 2e6, 9e6), constraints=[LATENCY])
    assert (verdicts(ours.default_bounds), verdicts(ours.bounds)) == (["broken"], ["broken"])
    assert (ours.outcome, ours.default_out) == (Outcome.VIOLATION, False)


def test_a_search_that_tried_only_the_default_recommends_nothing(lab: Any) -> None:
    stayed = {"ended": "budget", "asked": 1, "winner": DEFAULT, "feasible": True}
    ours = result(lab, [], searched_rows=[trial(0, "default", DEFAULT, 100.0)], found=stayed)
    assert (ours.outcome, ours.tried) == (Outcome.DEFAULT_ALONE, 1)


def test_the_default_may_stay_the_best(lab: Any) -> None:
    ours = result(lab, [], found={"ended": "budget", "asked": 5, "winner": DEFAULT, "feasible": True})
    assert ours.outcome == Outcome.DEFAULT_BEST and ours.stayed and ours.row is None
    assert ours.winner is not None and (ours.winner.mean, ours.winner.fresh) == (100.0, False)


def test_constraints_that_no_point_satisfies_leave_the_nearest(lab: Any) -> None:
    rows = [trial(0, "default", DEFAULT, 100.0, 9e6), trial(1, "explore", WINNER, 50.0, 6e6)]
    nearest = {"ended": "trials", "asked": 2, "winner": WINNER, "feasible": False}
    ours = result(lab, [], searched_rows=rows, found=nearest, constraints=[LATENCY])
    assert ours.outcome == Outcome.INFEASIBLE and ours.winner is not None and ours.winner.point == WINNER
    assert verdicts(ours.bounds) == ["broken"]


def test_a_search_of_which_every_trial_failed_recommends_nothing(lab: Any) -> None:
    rows = [trial(0, "default", DEFAULT, None), trial(1, "explore", WINNER, None)]
    failed = {"ended": "failed", "asked": 2, "winner": None, "feasible": False}
    ours = result(lab, [], searched_rows=rows, found=failed)
    assert (ours.outcome, ours.winner) == (Outcome.NO_RESULT, None)


def test_the_leading_point_of_a_search_that_has_not_ended_satisfies_the_constraints(lab: Any) -> None:
    rows = [trial(0, "default", DEFAULT, 100.0, 4e6), trial(1, "explore", WINNER, 900.0, 9e6)]
    ours = result(lab, [], searched_rows=rows, found=None, constraints=[LATENCY])
    assert ours.winner is not None and (ours.winner.point, ours.outcome) == (DEFAULT, Outcome.RUNNING)
    ours = result(lab, [], searched_rows=rows[1:], found=None, constraints=[LATENCY])
    assert (ours.feasible, ours.outcome) == (False, Outcome.INFEASIBLE)


def test_a_search_that_has_not_ended_has_a_leading_point(lab: Any) -> None:
    ours = result(lab, [], found=None)
    assert ours.outcome == Outcome.RUNNING and ours.winner is not None and ours.winner.point == WINNER


def test_a_run_that_is_no_search_has_no_answer(lab: Any) -> None:
    study = lab.study("s", factors={"iodepth": [1, 2]})
    records = lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1.0}))
    assert tuned.analyse(records, study) == []


def test_other_analyses_of_a_search_count_its_confirmation_only(lab: Any) -> None:
    records, study = searched(lab, GAIN)
    assert [cell.values.size for cell in cells(records, study, METRIC).cells] == [5, 5]
    assert cells(searched(lab, [])[0], study, METRIC).cells == ()
