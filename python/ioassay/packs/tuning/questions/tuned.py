"""Did the search find a point better than the default, and does that hold when both are measured again?

The search selected the winner for its values, which are therefore biased. The trials of the confirmation alone judge
it, with the statistics of `compare`: the ratio of means with its interval, and two one-sided tests of equivalence.
A constraint holds where the whole interval of the winner's mean does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Any, TypedDict

from ioassay import metrics
from ioassay.analysis import condition_comparison
from ioassay.analysis.condition_comparison import Verdict
from ioassay.analysis.measurements.cells import Cell, cells, label, plausible
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table, bounds
from ioassay.narrative.say import Quantity, Response, Say, holding, say, templates
from ioassay.narrative.say import Ratio as ShownRatio
from ioassay.packs.tuning.search.request import Constraint
from ioassay.records.record import OK, Scalar
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined, as_floats, mean_of, plain
from ioassay.stats.sample import mean_interval
from ioassay.store import dataset
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

IMPROVED, WORSE, SAME, UNDECIDED = "improved", "worse", "no difference", "undecided"
KEPT, BROKEN = "kept", "broken"
WHOLE = ("default", "explore", "refine", "repeat")
"""Trials of the search that ran for their whole time."""
_Point = Mapping[str, Scalar]


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

    point: _Point
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

    point: _Point
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
    row: condition_comparison.Row | None
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


def measure(records: Dataset, study: Study) -> Tuned:
    tuning = records.tuning
    assert tuning is not None
    search, found = _Search(records, study, tuning), tuning.get("found")
    rows, metric = search.rows, search.metric
    # A point along the axes has the factors of one level as well.
    default = {name: tuning["default"].get(name, levels[0]) for name, levels in study.levels.items()}
    dropped, winner = search.confirmed(found) if found else ([], search.leading())
    if dropped and dropped[0].point != winner:
        search = search.of_confirmation(winner)
    sides = [search.side(point) for point in (default, winner)]
    spread = any(side.interval.low < side.interval.high for side in sides if side is not None and side.interval)
    row, bounds = search.comparison(default, winner), search.bounds(winner)
    kept = len(bounds) == len(search.constraints) and all(bound.verdict != BROKEN for bound in bounds)
    ended = ["failed" if one["status"] != OK else one.get("search") for one in rows]
    verdict = None
    if row is not None and row.verdict in (Verdict.SAME, Verdict.UNDECIDED):
        verdict = SAME if row.verdict == Verdict.SAME else UNDECIDED
    elif row is not None:  # more is an improvement where it maximizes, whatever the metric usually means
        verdict = IMPROVED if (row.mean_b > row.mean_a) == bool(tuning["maximize"]) else WORSE
    return Tuned(
        study=study.name,
        metric=metric,
        maximize=bool(tuning["maximize"]),
        ended=found["ended"] if found else None,
        points=int(tuning["points"]),
        tried=len({search.key(one) for one in rows if one.get("search")}),
        counts={kind: ended.count(kind) for kind in (*WHOLE, "short", "pruned", "failed", "confirm")},
        default=sides[0],
        winner=sides[1],
        feasible=kept and (found is None or found["feasible"]),
        row=row,
        verdict=verdict,
        bounds=bounds,
        default_bounds=search.bounds(default),
        history=[
            Attempt(
                order=one["order"],
                search=one.get("search"),
                point=study.design.point(one),
                value=one.get(metric),
                status=one["status"],
            )
            for one in rows
        ],
        # Repetitions of a simulation may differ, where its trace is made anew for each.
        exact=not records.is_measured(study) and not spread,
        confidence=search.confidence,
        margin=float(tuning["margin"]),
        dropped=dropped,
    )


class _Search:
    def __init__(self, records: Dataset, study: Study, tuning: dataset.Search) -> None:
        self.records, self.study, self.tuning = records, study, tuning
        self.constraints = [Constraint(**constraint) for constraint in tuning["constraints"]]
        self.metric, self.confidence, self.key = str(tuning["metric"]), study.analysis.confidence, study.design.key
        self.rows = list(records.trials_of(study).iter_rows(named=True))
        self.searched = [row for row in self.rows if row.get("search") in WHOLE]

    def confirmed(self, found: dataset.Outcome) -> tuple[list[Dropped], _Point | None]:
        """The candidates that violate a constraint in their confirmation, and the first other, else the last."""
        dropped: list[Dropped] = []
        candidates = found.get("candidates") or ([found["winner"]] if found["winner"] is not None else [])
        for candidate in candidates:
            bounds = self.bounds(candidate)
            if not self._repetitions(candidate) or all(bound.verdict != BROKEN for bound in bounds):
                return dropped, candidate
            dropped.append(Dropped(candidate, bounds))
        return dropped, candidates[-1] if candidates else None

    def of_confirmation(self, point: _Point | None) -> _Search:
        """Without the confirmations of other candidates than `point`: a machine that drifts was another one then."""
        trials = self.records.trials
        own = trials["repetition"].is_in(list(self._repetitions(point)))
        kept = replace(self.records, trials=trials.filter(own | (trials["search"] != "confirm")))
        return _Search(kept, self.study, self.tuning)

    def _repetitions(self, point: _Point | None) -> set[int]:
        """The numbers of the repetitions that confirm a point; the default beside it has the same."""
        confirming = (row for row in self.rows if row.get("search") == "confirm")
        return {row["repetition"] for row in confirming if self.key(row) == self.key(point or {})}

    def leading(self) -> _Point | None:
        """The best point by its means so far, of a search that has not ended; the nearest where none is feasible."""
        points = {self.key(row): self.study.design.point(row) for row in self.searched}.values()
        sides = [side for point in points if (side := self.side(point)) is not None]

        def rank(side: Side) -> tuple[float, float]:
            means = [(one, getattr(self.side(side.point, one.metric), "mean", None)) for one in self.constraints]
            excess = sum(max(0.0, constraint.violation(mean)) for constraint, mean in means)
            return -excess, side.mean if self.tuning["maximize"] else -side.mean

        return max(sides, key=rank).point if sides else None

    def side(self, point: _Point | None, metric: str = "") -> Side | None:
        """A point by its fresh repetitions where it has any, else by what the search measured of it."""
        metric = metric or self.metric
        if (cell := self._cell(metric, point)) is not None:
            values = cell.values
        else:
            own = [row for row in self.searched if self.key(row) == self.key(point or {}) and row["status"] == OK]
            values = as_floats([row[metric] for row in own if plausible(row.get(metric))])
        if point is None or not values.size:
            return None
        interval = mean_interval(values, self.confidence, metrics.metric(metric).bounds)
        known = interval if isinstance(interval, Interval) else None
        mean = mean_of(values) if cell is None else cell.mean
        return Side(point, mean, int(values.size), known, cell is not None)

    def bounds(self, point: _Point | None) -> list[Bound]:
        found = []
        for constraint in self.constraints:
            if (side := self.side(point, constraint.metric)) is None:
                continue
            kept = constraint.holds(side.mean)
            ends = (side.interval.low, side.interval.high) if side.interval is not None else ()
            surely = bool(ends) and all(constraint.holds(end) == kept for end in ends)
            surely = surely and not (kept and isinstance(side.mean, metrics.LowerBound))
            verdict = (KEPT if surely else UNDECIDED) if kept else BROKEN
            found.append(Bound(constraint.metric, constraint.text, side.mean, side.interval, verdict, surely))
        return found

    def comparison(self, default: _Point, winner: _Point | None) -> condition_comparison.Row | None:
        """Both by their fresh repetitions; None where one has none, or where they are the same point."""
        a, b = self._cell(self.metric, default), self._cell(self.metric, winner)
        if a is None or b is None or a is b:
            return None
        margin = float(self.tuning["margin"])
        return condition_comparison.judged_pairs(self.study.name, self.metric, [(a, b)], margin, self.confidence)[0]

    def _cell(self, metric: str, point: _Point | None) -> Cell | None:
        found = cells(self.records, self.study, metric).cells
        return next((cell for cell in found if self.key(cell.point) == self.key(point or {})), None)


HEADING = templates("tuned")["heading"]


def analyse(records: Dataset, study: Study) -> list[Finding]:
    return [] if records.tuning is None else [finding(measure(records, study))]


def finding(found: Tuned) -> Finding:
    caveats = {"chance": found.history and not found.exact, "untried": found.tried < found.points}
    sides = {"default": found.default, _role(found): found.winner} if found.row is not None else {}
    confirmed = Table.of(
        [(name, side) for name, side in sides.items() if side is not None],
        ("", lambda row: row[0]),
        ("point", lambda row: label(row[1].point)),
        ("n", lambda row: row[1].n),
        ("mean", lambda row: row[1].mean, found.metric),
        *bounds(lambda row: row[1].interval, found.metric),
    )
    return Finding(
        response=found.metric,
        title=str(say("tuned.title", way="high" if found.maximize else "low", metric=Response(found.metric))),
        statements=[*_statements(found)],
        statistics=statistics(found),
        tables=[table for table in (confirmed, _constraints(found), _tried(found)) if table.rows],
        caveats=holding("tuned", **caveats),
        severity="info" if found.confirmed or found.stayed else "warning",
    )


def statistics(found: Tuned) -> dict[str, Any]:
    ratio = found.row.ratio if found.row is not None and isinstance(found.row.ratio, Ratio) else None
    compared = {
        "ratio": ratio.ratio if ratio else None,
        "interval": phrases.ends(ratio.interval if ratio else None),
        "p": ratio.p if ratio else None,
        "constraints": _bounds(found.bounds),
        "default_constraints": _bounds(found.default_bounds),
        **{name: getattr(found, name) for name in ("verdict", "confirmed", "margin", "confidence")},
    }
    return {
        **{name: getattr(found, name) for name in ("metric", "maximize", "ended", "feasible", "stayed", "confirmed")},
        "space": {"points": found.points, "tried": found.tried},
        "trials": dict(found.counts),
        "best": _side(found.winner),
        "default": _side(found.default),
        "dropped": [{"point": dict(one.point), "constraints": _bounds(one.bounds)} for one in found.dropped],
        "confirmation": compared if found.row is not None else None,
        "history": [dict(one) for one in found.history],
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    numbers = {"point": dict(side.point), "mean": side.mean, "interval": phrases.ends(side.interval), "n": side.n}
    return {**numbers, "from": "confirmation" if side.fresh else "search"}


def _bounds(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    return [{**plain(bound), "interval": phrases.ends(bound.interval)} for bound in bounds]


def _statements(found: Tuned) -> Iterator[Say]:
    """The outcome, the comparison with the default, what was dropped on the way to it, and the effort."""
    outcome, row, violated = found.outcome, found.row, _violated(found.default_bounds)
    code = outcome.name.lower()
    if outcome == Outcome.VIOLATION and violated:
        code = "violation_by_default"
    if found.default_out and outcome in (Outcome.WORSE, Outcome.NO_DIFFERENCE, Outcome.UNDECIDED):
        code = "no_alternative"
    yield Say(f"tuned.{code}", _values(found))
    if found.ended is None:
        yield say("tuned.unfinished")
    if row is not None and outcome != Outcome.VIOLATION:
        if isinstance(row.ratio, Ratio):
            ratio = ShownRatio(row.ratio.ratio, None if found.exact else row.interval)
            yield say("tuned.ratio", metric=Response(found.metric), ratio=ratio)
        if code == "undecided":
            yield say("tuned.repetitions", needed=found.repetitions_needed)
        if violated and code not in ("replaces_default", "no_alternative"):
            yield say("tuned.default_violates", violated=violated)
        if unproved := [bound.text for bound in found.bounds if bound.verdict != KEPT]:
            yield say("tuned.unproved", constraints=unproved)
        elif found.bounds:
            yield say("tuned.kept", constraints=[bound.text for bound in found.bounds])
    for one in found.dropped:
        yield say("tuned.dropped", point=label(one.point), violated=_violated(one.bounds))
    lost = {"stopped": found.counts["pruned"], "without_result": found.counts["failed"]}
    losses = [say(f"tuned.{name}", number=number) for name, number in lost.items() if number]
    losses += [say("tuned.budget")] if found.ended == "budget" else []
    code = "tuned.effort_with_losses" if losses else "tuned.effort"
    yield say(code, tried=found.tried, points=found.points, losses=losses)


def _values(found: Tuned) -> dict[str, object]:
    """What the sentences of outcomes name, as far as it is known."""
    shown: dict[str, object] = {"metric": Response(found.metric), "margin": found.margin}
    if found.winner is not None:
        shown |= {"winner": label(found.winner.point), "mean": Quantity(found.metric, found.winner.mean)}
        shown["violated"] = _violated(found.bounds) or ["them"]
    if found.default is not None:
        shown |= {"default": label(found.default.point), "default_mean": Quantity(found.metric, found.default.mean)}
        shown["default_violated"] = _violated(found.default_bounds)
    if found.row is not None and isinstance(found.row.ratio, Undefined):
        shown["reason"] = found.row.ratio.reason
    return shown


def _violated(bounds: Sequence[Bound]) -> list[Say]:
    broken = [bound for bound in bounds if bound.verdict == BROKEN]
    return [say("tuned.there", constraint=one.text, mean=Quantity(one.metric, one.mean)) for one in broken]


def _constraints(found: Tuned) -> Table:
    places = [] if found.stayed else [("default", found.default_bounds)]
    places += [(label(one.point), one.bounds) for one in found.dropped if found.feasible]
    places += [(_role(found), found.bounds)]

    def shown(bound: Bound, value: float | None) -> str | None:
        return None if value is None else phrases.value(bound.metric, value)

    return Table.of(
        [(name, bound) for name, bounds in places for bound in bounds] if found.bounds else [],
        ("constraint", lambda row: row[1].text),
        ("at", lambda row: row[0]),
        ("mean", lambda row: shown(row[1], row[1].mean)),
        ("from", lambda row: shown(row[1], getattr(row[1].interval, "low", None))),
        ("to", lambda row: shown(row[1], getattr(row[1].interval, "high", None))),
        ("verdict", lambda row: row[1].verdict),
    )


def _role(found: Tuned) -> str:
    """What the search's point is called: no point wins that violates a constraint."""
    return "winner" if found.feasible else "candidate"


def _tried(found: Tuned) -> Table:
    own: dict[str, list[float]] = {}
    for one in found.history:
        if one["search"] in WHOLE and one["value"] is not None:
            own.setdefault(label(one["point"]), []).append(float(one["value"]))
    rows = [(name, len(values), sum(values) / len(values)) for name, values in own.items()]
    return Table.of(
        sorted(rows, key=lambda row: row[2], reverse=found.maximize)[:10],
        ("point in the search", lambda row: row[0]),
        ("n", lambda row: row[1]),
        ("mean", lambda row: row[2], found.metric),
    )
