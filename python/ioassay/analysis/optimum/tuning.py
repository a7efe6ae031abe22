"""Did the search find a point better than the default, and does that hold when both are measured again?

The search selected the winner for its values, which are therefore biased. The trials of the confirmation alone judge
it, with the statistics of `compare`: the ratio of means with its interval, and two one-sided tests of equivalence.
A constraint holds where the whole interval of the winner's mean does. A run that is no search has no answer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, fmean
from typing import Any, TypedDict

from ioassay import metrics
from ioassay.analysis import run_comparison
from ioassay.analysis.measurements.cells import Cell, cells, plausible, that_count
from ioassay.analysis.run_comparison import Verdict
from ioassay.records.record import OK, Scalar
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, as_floats, mean_of
from ioassay.stats.sample import mean_interval
from ioassay.store import schema
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

IMPROVED, WORSE, SAME, UNDECIDED = "improved", "worse", "no difference", "undecided"
KEPT, BROKEN = "kept", "broken"
WHOLE = ("default", "explore", "refine", "repeat")
"""Trials of the search that ran for their whole time."""
_Row = Mapping[str, Any]


class Outcome(StrEnum):
    """The result of a search. The last eight compare the winner with the default in the confirmation."""

    NO_RESULT = "no result"
    """No trial succeeded."""
    RUNNING = "running"
    INFEASIBLE = "infeasible"
    """No tried point satisfies the constraints."""
    DEFAULT_ALONE = "default alone"
    """The search tried no other point."""
    DEFAULT_BEST = "default best"
    UNCONFIRMED = "unconfirmed"
    """The confirmation has not run."""
    NOT_COMPARABLE = "not comparable"
    """The confirmation allows no test."""
    VIOLATION = "violation"
    """Every point that was confirmed violates a constraint there."""
    IMPROVED = "improved"
    IMPROVED_OUTSIDE = "improved outside the constraints"
    """The winner is better, and is not proved to satisfy the constraints."""
    REPLACES_DEFAULT = "replaces default"
    """The default violates a constraint; the winner satisfies all, and is not better otherwise."""
    WORSE = "worse"
    NO_DIFFERENCE = "no difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Side:
    """One point of a search: what its trials gave. `fresh`: those of the confirmation, else of the search itself."""

    point: Mapping[str, Scalar]
    mean: float
    n: int
    interval: Interval | None
    fresh: bool


@dataclass(frozen=True)
class Bound:
    """One constraint at one point. `verdict`: KEPT, BROKEN (its mean is beyond) or UNDECIDED; in the metric's unit.

    `surely`: whether its whole interval is on the side of its mean.
    """

    metric: str
    text: str
    mean: float
    interval: Interval | None
    verdict: str
    surely: bool


@dataclass(frozen=True)
class Dropped:
    """A candidate that violates a constraint in its confirmation; `bounds` are those at it."""

    point: Mapping[str, Scalar]
    bounds: Sequence[Bound]


class Attempt(TypedDict):
    """One trial of a search; `value` is that of its metric."""

    order: int
    search: str | None
    point: dict[str, Scalar]
    value: float | None
    status: str


@dataclass(frozen=True)
class Tuned:
    """The result of a search. `winner` is the nearest point where none is `feasible`; `row` is the comparison.

    A point that satisfied the constraints in the search and violates them in the confirmation is not `feasible`.

    `counts`: trials by what they were for, with those that failed apart; `tried` of `points` had at least one.
    """

    study: str
    metric: str
    maximize: bool
    ended: str | None
    points: int
    tried: int
    counts: Mapping[str, int]
    default: Side | None
    winner: Side | None
    feasible: bool
    row: run_comparison.Row | None
    verdict: str | None
    bounds: Sequence[Bound]
    """The constraints at the winner."""
    default_bounds: Sequence[Bound]
    history: Sequence[Attempt]
    exact: bool
    confidence: float
    margin: float
    dropped: Sequence[Dropped] = ()
    """In the order of their confirmations; the last is the `winner` where no candidate keeps the constraints."""

    @property
    def stayed(self) -> bool:
        """Whether the default itself was the best."""
        return self.winner is not None and self.default is not None and self.winner.point == self.default.point

    @property
    def default_out(self) -> bool:
        """Whether the default is proved to break a constraint, so that it is no choice whatever it gives."""
        return any(bound.verdict == BROKEN and bound.surely for bound in self.default_bounds)

    @property
    def confirmed(self) -> bool:
        """Whether the winner is proved to keep every constraint, and to be better than a default that may keep them."""
        better = self.verdict == IMPROVED or (self.row is not None and self.default_out)
        return better and all(bound.verdict == KEPT for bound in self.bounds)

    @property
    def repetitions_needed(self) -> int | None:
        """Repetitions of each after which the ratio is expected to be known within the margin; None without a ratio."""
        if self.row is None or not isinstance(self.row.ratio, Ratio):
            return None
        quantile = NormalDist().inv_cdf((1 + self.confidence) / 2)
        fewest = min(self.row.n_a, self.row.n_b)
        return max(fewest + 1, math.ceil(fewest * (quantile * self.row.ratio.se / self.margin) ** 2))

    @property
    def outcome(self) -> Outcome:
        """The result, which all sentences about the search follow."""
        if self.winner is None:
            return Outcome.NO_RESULT
        if not self.feasible:
            return Outcome.INFEASIBLE if self.row is None else Outcome.VIOLATION
        if self.ended is None:
            return Outcome.RUNNING
        if self.stayed:
            return Outcome.DEFAULT_ALONE if self.tried == 1 < self.points else Outcome.DEFAULT_BEST
        if self.row is None or self.default is None:
            return Outcome.UNCONFIRMED
        if not isinstance(self.row.ratio, Ratio):
            return Outcome.NOT_COMPARABLE
        if self.verdict == IMPROVED:
            return Outcome.IMPROVED if self.confirmed else Outcome.IMPROVED_OUTSIDE
        if self.confirmed:
            return Outcome.REPLACES_DEFAULT
        return {WORSE: Outcome.WORSE, SAME: Outcome.NO_DIFFERENCE}.get(str(self.verdict), Outcome.UNDECIDED)


def analyse(records: Dataset, study: Study) -> list[Tuned]:
    """One answer for a search, none for other runs."""
    return [] if records.tuning is None else [measure(records, study, records.tuning)]


def measure(records: Dataset, study: Study, tuning: schema.Search) -> Tuned:
    """The result of a search, as far as it has run."""
    rows = list(records.trials_of(study).iter_rows(named=True))
    metric, confidence = str(tuning["metric"]), study.analysis.confidence
    searched = [row for row in rows if row.get("search") in WHOLE]
    found = tuning.get("found")
    default = _whole(study, tuning["default"])
    dropped, winner = _confirmed(records, study, tuning) if found else ([], _leading(study, searched, tuning))
    if dropped and dropped[0].point != winner:
        records = _of_confirmation(records, study, winner)
    fresh = {_key(study, cell.point): cell for cell in cells(records, study, metric).cells}
    sides = [_side(study, point, fresh, searched, metric, confidence) for point in (default, winner)]
    row = _compared(study, metric, [fresh.get(_key(study, point)) for point in (default, winner)], tuning)
    bounds = _bounds(records, study, winner, tuning, confidence)
    kept = len(bounds) == len(tuning["constraints"]) and all(bound.verdict != BROKEN for bound in bounds)
    return Tuned(
        study=study.name,
        metric=metric,
        maximize=bool(tuning["maximize"]),
        ended=found["ended"] if found else None,
        points=int(tuning["points"]),
        tried=len({_key(study, _point(study, one)) for one in rows if one.get("search")}),
        counts=_counts(rows),
        default=sides[0],
        winner=sides[1],
        feasible=kept and (found is None or found["feasible"]),
        row=row,
        verdict=None if row is None else _verdict(row, maximize=bool(tuning["maximize"])),
        bounds=bounds,
        default_bounds=_bounds(records, study, default, tuning, confidence),
        history=_history(study, rows, metric),
        exact=not records.is_measured(study) and not _spread(sides),
        confidence=confidence,
        margin=float(tuning["margin"]),
        dropped=dropped,
    )


def _confirmed(
    records: Dataset, study: Study, tuning: schema.Search
) -> tuple[list[Dropped], Mapping[str, Scalar] | None]:
    """The candidates that violate a constraint in their confirmation, and the first other, else the last of them."""
    found = tuning["found"]
    assert found is not None
    dropped: list[Dropped] = []
    candidates = found.get("candidates") or ([found["winner"]] if found["winner"] is not None else [])
    for candidate in candidates:
        bounds = _bounds(records, study, candidate, tuning, study.analysis.confidence)
        if not _repetitions(records, study, candidate) or all(bound.verdict != BROKEN for bound in bounds):
            return dropped, candidate
        dropped.append(Dropped(candidate, bounds))
    return dropped, candidates[-1] if candidates else None


def _repetitions(records: Dataset, study: Study, point: Mapping[str, Scalar] | None) -> set[int]:
    """The numbers of the repetitions that confirm a point; the default beside it has the same."""
    rows = that_count(records.trials_of(study)).iter_rows(named=True)
    return {row["repetition"] for row in rows if _key(study, row) == _key(study, point)}


def _of_confirmation(records: Dataset, study: Study, point: Mapping[str, Scalar] | None) -> Dataset:
    """Without the confirmations of other candidates than `point`: a machine that drifts was another one then."""
    own = records.trials["repetition"].is_in(list(_repetitions(records, study, point)))
    return replace(records, trials=records.trials.filter(own | (records.trials["search"] != "confirm")))


def _whole(study: Study, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A point along the axes with the factors that have one level only."""
    return {name: point.get(name, levels[0]) for name, levels in study.levels.items()}


def _point(study: Study, row: _Row) -> dict[str, Scalar]:
    """A trial's point in the study's own spelling: frames may have turned numbers into text."""
    return study.design.point(row)


def _key(study: Study, point: Mapping[str, Scalar] | None) -> tuple[str, ...]:
    return study.design.key(point or {})


def _values(study: Study, rows: Sequence[_Row], point: Mapping[str, Scalar] | None, metric: str) -> list[float]:
    own = [row for row in rows if _key(study, row) == _key(study, point) and row["status"] == OK]
    return [row[metric] for row in own if plausible(row.get(metric))]


def _leading(study: Study, searched: Sequence[_Row], tuning: schema.Search) -> dict[str, Scalar] | None:
    """The best point by its means so far, of a search that has not ended; the nearest where none is feasible."""
    sign = 1 if tuning["maximize"] else -1
    ranked: dict[tuple[str, ...], tuple[float, float, dict[str, Scalar]]] = {}
    for row in searched:
        point = _point(study, row)
        if values := _values(study, searched, point, str(tuning["metric"])):
            excess = sum(_excess(one, _values(study, searched, point, one["metric"])) for one in tuning["constraints"])
            ranked[_key(study, point)] = (-excess, sign * fmean(values), point)
    return max(ranked.values(), key=lambda one: one[:2])[2] if ranked else None


def _excess(constraint: schema.Bound, values: Sequence[float]) -> float:
    """How far the mean of `values` violates the constraint, as a share of the bound; 0 where it holds."""
    if not values:
        return math.inf
    if holds(constraint, mean := fmean(values)):
        return 0.0
    return max(abs(mean - constraint["bound"]) / (abs(constraint["bound"]) or 1.0), sys.float_info.epsilon)


def _side(
    study: Study,
    point: Mapping[str, Scalar] | None,
    fresh: Mapping[tuple[str, ...], Cell],
    searched: Sequence[_Row],
    metric: str,
    confidence: float,
) -> Side | None:
    """A point by its fresh repetitions where it has any, else by what the search measured of it."""
    cell = fresh.get(_key(study, point))
    values = list(cell.values) if cell is not None else _values(study, searched, point, metric)
    if point is None or not values:
        return None
    return Side(point, mean_of(as_floats(values)), len(values), _interval(metric, values, confidence), cell is not None)


def _spread(sides: Sequence[Side | None]) -> bool:
    """Whether repetitions differ: those of a simulation may, where its trace is made anew for each."""
    return any(side.interval.low < side.interval.high for side in sides if side is not None and side.interval)


def _interval(metric: str, values: Sequence[float], confidence: float) -> Interval | None:
    found = mean_interval(values, confidence, metrics.metric(metric).bounds)
    return found if isinstance(found, Interval) else None


def _compared(
    study: Study, metric: str, pair: Sequence[Cell | None], tuning: schema.Search
) -> run_comparison.Row | None:
    default, winner = pair
    if default is None or winner is None or default is winner:
        return None
    return run_comparison.against(study, metric, default, winner, float(tuning["margin"]), study.analysis.confidence)


def _verdict(row: run_comparison.Row, *, maximize: bool) -> str:
    """By what the search was to do: more is an improvement where it maximizes, whatever the metric usually means."""
    if row.verdict in (Verdict.SAME, Verdict.UNDECIDED):
        return SAME if row.verdict == Verdict.SAME else UNDECIDED
    return IMPROVED if (row.mean_b > row.mean_a) == maximize else WORSE


def _bounds(
    records: Dataset,
    study: Study,
    point: Mapping[str, Scalar] | None,
    tuning: schema.Search,
    confidence: float,
) -> list[Bound]:
    """Each constraint at a point, by its fresh repetitions where it has any."""
    rows = [row for row in records.trials_of(study).iter_rows(named=True) if row.get("search") in WHOLE]
    found = []
    for constraint in tuning["constraints"]:
        fresh = (cell for cell in cells(records, study, constraint["metric"]).cells)
        own = next((list(cell.values) for cell in fresh if _key(study, cell.point) == _key(study, point)), [])
        values = own or _values(study, rows, point, constraint["metric"])
        if point is None or not values:
            continue
        mean, interval = mean_of(as_floats(values)), _interval(constraint["metric"], values, confidence)
        kept = holds(constraint, mean)
        surely = interval is not None and all(holds(constraint, end) == kept for end in (interval.low, interval.high))
        verdict = (KEPT if surely else UNDECIDED) if kept else BROKEN
        found.append(Bound(constraint["metric"], constraint["text"], mean, interval, verdict, surely))
    return found


def holds(constraint: schema.Bound, value: float) -> bool:
    """Whether `value` keeps the constraint, in the unit of its metric."""
    sense, bound = constraint["sense"], constraint["bound"]
    if value == bound:
        return "=" in sense
    return bool((value < bound) == sense.startswith("<"))


def _counts(rows: Sequence[_Row]) -> dict[str, int]:
    kinds = ("default", "explore", "refine", "repeat", "short", "pruned", "failed", "confirm")
    found = ["failed" if row["status"] != OK else row.get("search") for row in rows]
    return {kind: found.count(kind) for kind in kinds}


def _history(study: Study, rows: Sequence[_Row], metric: str) -> list[Attempt]:
    return [
        {
            "order": row["order"],
            "search": row.get("search"),
            "point": _point(study, row),
            "value": row.get(metric),
            "status": row["status"],
        }
        for row in rows
    ]
