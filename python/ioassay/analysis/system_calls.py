"""Which system calls does the load make, how many a second, and how does that change over the factors?

From the trials that ran once more to count them (`watch.calls`). Their speeds show only how much counting slowed the
load. The cost of a call is not known here. There is one trial a point, so the counts describe and nothing is tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from statistics import fmean, median
from typing import Any

from ioassay import metrics
from ioassay.factors import LevelIndex, level_axis_numbers
from ioassay.records.record import Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

WORK = "bogo_ops"
"""The unit of work to which calls are related, where the driver counts it."""
_ENOUGH = 0.8
"""The share of all calls that dominant ones make together."""
_MOST_DOMINANT = 4
HARDLY_ANY = 3000
"""Fewer in a trial are hardly more than those of the tool's own start and end (stress-ng's are about a thousand)."""
CONSTANT = 1.15
"""Rates whose ratio is smaller count as one."""


class Outcome(StrEnum):
    """What the counts show."""

    UNCOUNTED = "uncounted"
    HARDLY_ANY = "hardly any"
    SINGLE = "single point"
    CONSTANT = "constant"
    VARIES = "varies"


@dataclass(frozen=True)
class Point:
    """What was counted at one point."""

    trial: str
    levels: Mapping[str, Scalar]
    by: str
    count: Mapping[str, int]
    """Name -> number of calls, most frequent first."""
    errors: int
    rate: float
    """Of all together, a second."""
    work: float | None
    """The number of WORK done meanwhile."""
    speed: float | None
    """How fast the load ran while it was counted: the first response, as a share of the median of the other trials."""

    @property
    def total(self) -> int:
        return sum(self.count.values())

    @property
    def per_work(self) -> float | None:
        return self.total / self.work if self.work else None

    @property
    def rate_at_full_speed(self) -> float | None:
        """The rate if counting had not slowed the load, where that is known."""
        return self.rate / self.speed if self.speed and self.work else None

    def share(self, names: Sequence[str]) -> float:
        return sum(self.count.get(name, 0) for name in names) / self.total


@dataclass(frozen=True)
class SystemCalls:
    """What was counted of a study, point by point in its order; `uncounted` trials were to be counted as well.

    `dominant` are the fewest calls that make most of all; `ordered`: the points follow the numbers of one factor.
    """

    points: Sequence[Point]
    dominant: Sequence[str]
    ordered: bool
    uncounted: int
    reasons: Sequence[str]

    @property
    def outcome(self) -> Outcome:
        if not self.points:
            return Outcome.UNCOUNTED
        if max(point.total for point in self.points) < HARDLY_ANY:
            return Outcome.HARDLY_ANY
        if len(self.points) == 1:
            return Outcome.SINGLE
        rates = [point.rate for point in self.points]
        return Outcome.CONSTANT if max(rates) < CONSTANT * min(rates) else Outcome.VARIES


def analyse(records: Dataset, study: Study) -> list[SystemCalls]:
    """One answer for a study that counts system calls, none for others."""
    counting = [] if records.counting is None else records.counting.iter_rows(named=True)
    trials = [row for row in counting if row["study"] == study.name]
    speeds, levels, design = _speeds(records, study, trials), study.levels, study.design
    points = []
    for row in trials:
        rows = records.calls.filter(trial=row["trial"])
        if rows["count"].sum() and row["status"] == "ok":
            point = Point(
                trial=row["trial"],
                levels=LevelIndex({name: found for name, found in levels.items() if name in row}).point(row),
                by=rows["by"][0],
                count=dict(zip(rows["name"], rows["count"], strict=True)),
                errors=int(rows["errors"].sum()),
                rate=float(rows["per_second"].sum()),
                work=row.get(WORK),
                speed=speeds.get(row["trial"]),
            )
            points.append(point)
    points.sort(key=lambda point: design.place(point.levels))
    if not trials or not (points or "ok" in records.trials_of(study)["status"]):
        return []  # of a study of which no trial could run, other answers say why
    # Over all points with the same weight; none is dominant where it takes many calls.
    every = dict.fromkeys(name for point in points for name in point.count)
    shares = {name: fmean(point.share([name]) for point in points) for name in every}
    names = sorted(shares, key=lambda name: -shares[name])[:_MOST_DOMINANT]
    sums = accumulate(shares[name] for name in names)
    return [
        SystemCalls(
            points=points,
            dominant=next((names[:number] for number, made in enumerate(sums, 1) if made >= _ENOUGH), []),
            ordered=len(levels) == 1 and all(level_axis_numbers(*factor) is not None for factor in levels.items()),
            uncounted=len(trials) - len(points),
            reasons=list(dict.fromkeys(row["reason"] for row in trials if row["reason"])),
        )
    ]


def _speeds(records: Dataset, study: Study, trials: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Trial -> its speed as a share of that of its point's other trials, where both are known."""
    response = next((name for name in records.responses(study) if metrics.metric(name).better == "higher"), "")
    usual: dict[tuple[str, ...], list[float]] = {}
    for other in records.trials_of(study).iter_rows(named=True):
        if other.get(response) is not None:
            usual.setdefault(study.design.key(other), []).append(other[response])
    speeds = {}
    for row in trials:
        own = median(usual.get(study.design.key(row), [0.0]))
        if row.get(response) is not None and own > 0:
            speeds[row["trial"]] = row[response] / own
    return speeds
