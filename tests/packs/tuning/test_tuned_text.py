"""The sentences of a search, one for each outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioassay.analysis.condition_comparison import Row
from ioassay.packs.tuning.questions import tuned
from ioassay.packs.tuning.questions.tuned import (
    BROKEN,
    IMPROVED,
    KEPT,
    SAME,
    UNDECIDED,
    WORSE,
    Bound,
    Dropped,
    Outcome,
    Side,
    Tuned,
)
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined

from ...narrative import golden

DEFAULT = Side({"iodepth": 1, "bs": "4k"}, 18_200, 5, Interval(14_500, 21_800, 0.95, "t"), True)
WINNER = Side({"iodepth": 8, "bs": "64k"}, 85_900, 5, Interval(80_900, 90_800, 0.95, "t"), True)
OTHER = Undefined("a test needs two repetitions of each")
COMPARED = Row(
    study="depth",
    point=dict(WINNER.point),
    label="iodepth=8 bs=64k",
    response="read.iops",
    n_a=5,
    n_b=5,
    mean_a=DEFAULT.mean,
    mean_b=WINNER.mean,
    ratio=Ratio(4.72, Interval(3.87, 5.76, 0.95, "t"), se=0.07, df=4.0, p=0.0001),
)
BASE = Tuned(
    study="depth",
    metric="read.iops",
    maximize=True,
    ended="trials",
    points=32,
    tried=10,
    counts={"pruned": 2, "failed": 1},
    default=DEFAULT,
    winner=WINNER,
    feasible=True,
    row=COMPARED,
    verdict=IMPROVED,
    bounds=(),
    default_bounds=(),
    history=({"search": "default", "point": DEFAULT.point, "value": 18_200.0},),
    exact=False,
    confidence=0.95,
    margin=0.05,
)


def bound(mean: float, verdict: str) -> Bound:
    return Bound("read.lat.p99", "read.lat.p99 < 5ms", mean, None, verdict, verdict != UNDECIDED)


GOOD, OPEN, BAD = bound(1e6, KEPT), bound(4.5e6, UNDECIDED), bound(6.8e6, BROKEN)
DROPPED = [Dropped({"iodepth": 8, "bs": "4k"}, [BAD]), Dropped(WINNER.point, [BAD])]
DEFAULT_OUT = replace(BASE, default_bounds=[BAD])
ANSWERS = {
    Outcome.NO_RESULT: [replace(BASE, winner=None, row=None, ended="failed")],
    Outcome.RUNNING: [replace(BASE, ended=None, row=None)],
    Outcome.INFEASIBLE: [
        replace(BASE, feasible=False, row=None, bounds=[BAD]),
        replace(BASE, feasible=False, row=None, bounds=[BAD], ended=None),
    ],
    Outcome.VIOLATION: [
        replace(BASE, feasible=False, bounds=[BAD], default_bounds=[GOOD], dropped=DROPPED[1:]),
        replace(DEFAULT_OUT, feasible=False, bounds=[BAD], verdict=WORSE, dropped=DROPPED),
    ],
    Outcome.DEFAULT_ALONE: [replace(BASE, winner=DEFAULT, row=None, tried=1, ended="budget")],
    Outcome.DEFAULT_BEST: [replace(BASE, winner=DEFAULT, row=None)],
    Outcome.UNCONFIRMED: [replace(BASE, row=None), replace(BASE, row=None, dropped=DROPPED[:1])],
    Outcome.NOT_COMPARABLE: [replace(BASE, row=replace(COMPARED, ratio=OTHER))],
    Outcome.IMPROVED: [
        BASE,
        replace(BASE, bounds=[GOOD]),
        replace(BASE, bounds=[GOOD], dropped=DROPPED[:1]),
        replace(BASE, exact=True, tried=32),
    ],
    Outcome.IMPROVED_OUTSIDE: [replace(BASE, bounds=[OPEN])],
    Outcome.REPLACES_DEFAULT: [replace(DEFAULT_OUT, bounds=[GOOD], verdict=WORSE)],
    Outcome.WORSE: [replace(BASE, verdict=WORSE), replace(DEFAULT_OUT, bounds=[OPEN], verdict=WORSE)],
    Outcome.NO_DIFFERENCE: [replace(BASE, verdict=SAME)],
    Outcome.UNDECIDED: [replace(BASE, verdict=UNDECIDED, bounds=[OPEN], default_bounds=[replace(BAD, surely=False)])],
}


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_answers(outcome: Outcome) -> None:
    assert [one.outcome for one in ANSWERS[outcome]] == [outcome] * len(ANSWERS[outcome])


def test_sentences() -> None:
    golden.check("tuned", [tuned.finding(one) for answers in ANSWERS.values() for one in answers])
