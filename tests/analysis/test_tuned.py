"""What a search came to: the winner by its fresh repetitions only, the constraints, and no claim that is not proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from ioassay.analysis import run_comparison
from ioassay.analysis.measurements.cells import cells
from ioassay.analysis.optimum import tuning
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
    **tuning: Any,
) -> tuple[Dataset, Study]:
    """A search whose own trials flatter the winner; `confirmed` are pairs of default and winner."""
    study = lab.study(
        "s", factors={"iodepth": [1, 2, 4, 8], "bs": ["4k", "64k"]}, responses=[METRIC], questions=["tuned"]
    )
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


def told(lab: Any, *args: Any, **keys: Any) -> Any:
    return tuning.analyse(*searched(lab, *args, **keys))[0]


def test_a_gain_is_told_by_the_fresh_repetitions_and_not_by_those_of_the_search(lab: Any) -> None:
    found = told(lab, GAIN)
    ours = found.statistics
    assert ours["best"]["mean"] == 150.0
    assert ours["best"]["from"] == "confirmation"
    assert ours["confirmation"]["ratio"] == pytest.approx(150 / 100.4)
    assert ours["confirmation"]["verdict"] == "improved"
    assert ours["confirmed"] is True
    assert "the gain is confirmed" in found.statement
    assert "iodepth=8 bs=64k" in found.statement


def test_the_verdict_is_that_of_a_comparison_of_two_runs(lab: Any) -> None:
    records, study = searched(lab, GAIN)
    ours = tuning.measure(records, study, records.tuning or {})
    default, winner = cells(records, study, METRIC).cells
    assert ours.row == run_comparison.against(study, METRIC, default, winner)
    assert ours.row is not None and ours.row.verdict == run_comparison.FASTER


def test_trials_are_counted_by_what_they_were_for(lab: Any) -> None:
    counts = told(lab, GAIN).statistics["trials"]
    assert counts == {
        "default": 1,
        "explore": 1,
        "refine": 0,
        "repeat": 1,
        "short": 0,
        "pruned": 1,
        "failed": 1,
        "confirm": 10,
    }
    assert told(lab, GAIN).statistics["space"] == {"points": 8, "tried": 4}


@pytest.mark.parametrize(
    ("confirmed", "verdict", "words"),
    [
        ([(100, 70), (101, 71), (99, 70), (100, 72), (102, 69)], "worse", "Keep the default"),
        ([(100, 100), (101, 101), (100, 100.5), (100, 101), (101, 100)], "no difference", "no gain to claim"),
        ([(100, 150), (50, 60), (150, 240), (80, 70), (120, 160)], "undecided", "not confirmed"),
    ],
)
def test_no_victory_is_claimed_that_is_not_proved(lab: Any, confirmed: Any, verdict: str, words: str) -> None:
    found = told(lab, confirmed)
    assert found.statistics["confirmation"]["verdict"] == verdict
    assert found.statistics["confirmed"] is False
    assert words in found.statement
    assert found.severity == "warning"


def test_the_margin_says_from_where_on_a_gain_counts(lab: Any) -> None:
    one_per_cent = [(100.0, 101.0), (100.01, 101.01), (99.99, 100.99)]
    assert told(lab, one_per_cent).statistics["confirmation"]["verdict"] == "no difference"
    assert told(lab, one_per_cent, margin=0.005).statistics["confirmation"]["verdict"] == "improved"


def test_less_is_an_improvement_where_the_search_minimizes(lab: Any) -> None:
    less = [(winner, default) for default, winner in GAIN]
    assert told(lab, less, maximize=False).statistics["confirmation"]["verdict"] == "improved"
    assert told(lab, GAIN, maximize=False).statistics["confirmation"]["verdict"] == "worse"


@pytest.mark.parametrize(
    ("p99", "verdict"),
    [
        ((1e6, 1.1e6, 1.2e6, 1e6, 1.1e6), "kept"),
        ((4e6, 5.5e6, 4.2e6, 4.9e6, 4.4e6), "undecided"),
        ((7e6, 6e6, 8e6, 7e6, 6e6), "broken"),
    ],
)
def test_a_constraint_holds_where_its_whole_interval_does(lab: Any, p99: Sequence[float], verdict: str) -> None:
    found = told(lab, GAIN, p99=p99, constraints=[LATENCY])
    assert found.statistics["confirmation"]["constraints"][0]["verdict"] == verdict
    assert found.statistics["confirmed"] is (verdict == "kept")
    assert LATENCY["text"] in found.statement


COST = [(100, 70), (101, 71), (99, 70), (100, 72), (102, 69)]
BEYOND = (7e6, 6e6, 8e6, 7e6, 6e6)


def test_a_default_that_breaks_a_constraint_is_no_choice_whatever_it_gives(lab: Any) -> None:
    found = told(lab, COST, default_p99=BEYOND, constraints=[LATENCY])
    assert found.statistics["confirmation"]["verdict"] == "worse"
    assert found.statistics["confirmed"] is True
    assert found.statistics["confirmation"]["default_constraints"][0]["verdict"] == "broken"
    assert "The default itself breaks read.lat.p99 < 5ms (6.8 ms there)" in found.statement
    assert "confirmed as what keeps read.lat.p99 < 5ms" in found.statement
    assert "luck" not in found.statement and "Keep the default" not in found.statement


def test_a_winner_that_breaks_the_constraint_as_well_is_not_confirmed(lab: Any) -> None:
    found = told(lab, COST, p99=BEYOND, default_p99=BEYOND, constraints=[LATENCY])
    assert found.statistics["confirmed"] is False
    assert "Nor is the winner confirmed: read.lat.p99 < 5ms is broken" in found.statement


def test_what_becomes_of_the_constraints_is_said_of_gains_that_are_not_proved_too(lab: Any) -> None:
    unproved = [(100, 150), (50, 60), (150, 240), (80, 70), (120, 160)]
    found = told(lab, unproved, p99=BEYOND, default_p99=(1e6, 9e6, 9e6, 2e6, 9e6), constraints=[LATENCY])
    assert found.statistics["confirmed"] is False
    assert "On average the default itself breaks" in found.statement
    assert "At the winner read.lat.p99 < 5ms is broken" in found.statement


def test_a_search_that_tried_nothing_but_the_default_praises_it_not(lab: Any) -> None:
    stayed = {"ended": "budget", "asked": 1, "winner": DEFAULT, "feasible": True}
    found = told(lab, [], searched_rows=[trial(0, "default", DEFAULT, 100.0)], found=stayed)
    assert "1 of 8 points was tried" in found.statement
    assert "nothing was compared with" in found.statement and "keep it" not in found.statement


def test_a_default_that_stays_the_best_is_said(lab: Any) -> None:
    stayed = {"ended": "budget", "asked": 5, "winner": DEFAULT, "feasible": True}
    found = told(lab, [], found=stayed)
    assert found.statistics["stayed"] is True
    assert found.statistics["confirmation"] is None
    assert found.statistics["best"]["mean"] == 100.0
    assert "keep it" in found.statement
    assert "its time was over" in found.statement


def test_constraints_that_no_point_fulfils_are_said_with_the_nearest(lab: Any) -> None:
    rows = [trial(0, "default", DEFAULT, 100.0, 9e6), trial(1, "explore", WINNER, 50.0, 6e6)]
    lost = {"ended": "trials", "asked": 2, "winner": WINNER, "feasible": False}
    found = told(lab, [], searched_rows=rows, found=lost, constraints=[LATENCY])
    assert "No point fulfils the constraints. Nearest is iodepth=8 bs=64k" in found.statement
    assert "6" in found.statement


def test_a_search_of_which_every_trial_failed_recommends_nothing(lab: Any) -> None:
    rows = [trial(0, "default", DEFAULT, None), trial(1, "explore", WINNER, None)]
    lost = {"ended": "failed", "asked": 2, "winner": None, "feasible": False}
    found = told(lab, [], searched_rows=rows, found=lost)
    assert found.statistics["best"] is None
    assert "nothing to recommend" in found.statement


def test_a_search_that_has_not_ended_says_how_far_it_is(lab: Any) -> None:
    found = told(lab, [], found=None)
    assert "has not ended" in found.statement
    assert found.statistics["best"]["point"] == WINNER


def test_a_run_that_is_no_search_is_not_spoken_of(lab: Any) -> None:
    study = lab.study("s", factors={"iodepth": [1, 2]})
    records = lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1.0}))
    assert tuning.analyse(records, study) == []


def test_other_analyses_of_a_search_count_its_confirmation_only(lab: Any) -> None:
    records, study = searched(lab, GAIN)
    assert [cell.values.size for cell in cells(records, study, METRIC).cells] == [5, 5]
    assert cells(searched(lab, [])[0], study, METRIC).cells == ()
