"""Which system calls does the load make, how many a second, and how does that change over the factors?

From the trials that ran once more to count them (`watch.calls`). Their speeds show only how much counting slowed the
load. The cost of a call is not known here. There is one trial a point, so the counts describe and nothing is tested.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.factors import Design, level_axis_numbers
from ioassay.records.record import Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

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
        """Calls for each of WORK."""
        return self.total / self.work if self.work else None

    def share(self, names: Sequence[str]) -> float:
        """Of all calls, those of these names."""
        return sum(self.count.get(name, 0) for name in names) / self.total


@dataclass(frozen=True)
class SystemCalls:
    """What was counted of a study, point by point in its order; `uncounted` trials were to be counted as well.

    `dominant` are the fewest calls that make most of all; `ordered`: the points follow the numbers of one factor.
    """

    study: str
    points: Sequence[Point]
    dominant: Sequence[str]
    ordered: bool
    uncounted: int
    reasons: Sequence[str]

    @property
    def outcome(self) -> Outcome:
        """What the counts show."""
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
    trials = _trials(records, study)
    if trials is None or trials.is_empty():
        return []
    points = _points(records, study, trials)
    if not points and "ok" not in records.trials_of(study)["status"].to_list():
        return []  # no trial could run at all, which other answers explain
    levels = study.levels
    return [
        SystemCalls(
            study=study.name,
            points=points,
            dominant=_dominant(points),
            ordered=len(levels) == 1 and all(level_axis_numbers(*factor) is not None for factor in levels.items()),
            uncounted=trials.height - len(points),
            reasons=list(dict.fromkeys(reason for reason in trials["reason"].to_list() if reason)),
        )
    ]


def _dominant(points: Sequence[Point]) -> Sequence[str]:
    """The fewest calls that make most of all, over all points with the same weight; none where it takes many."""
    shares: Counter[str] = Counter()
    for point in points:
        for name, number in point.count.items():
            shares[name] += number / point.total / len(points)  # type: ignore[assignment]  # floats add up as well
    names: list[str] = []
    for name, _ in shares.most_common(_MOST_DOMINANT):
        names.append(name)
        if sum(shares[each] for each in names) >= _ENOUGH:
            return names
    return []


def _trials(records: Dataset, study: Study) -> pl.DataFrame | None:
    import polars as pl

    counting = records.counting
    return counting.filter(pl.col("study") == study.name) if counting is not None else None


def _points(records: Dataset, study: Study, trials: pl.DataFrame) -> list[Point]:
    """What was counted, in the order of the study's levels."""
    speeds = _speeds(records, study, trials)
    found = [_point(records, study, row, speeds) for row in trials.iter_rows(named=True)]
    design = study.design
    return sorted(
        (point for point in found if point is not None and point.total), key=lambda point: design.place(point.levels)
    )


def _point(records: Dataset, study: Study, row: Mapping[str, Any], speeds: Mapping[str, float]) -> Point | None:
    import polars as pl

    rows = records.calls.filter(pl.col("trial") == row["trial"])
    if rows.is_empty() or row["status"] != "ok":
        return None
    known = study.levels
    levels = Design({name: levels for name, levels in known.items() if name in row}).point(row)
    return Point(
        trial=row["trial"],
        levels=levels,
        by=rows["by"][0],
        count=dict(zip(rows["name"], rows["count"], strict=True)),
        errors=int(rows["errors"].sum()),
        rate=float(rows["per_second"].sum()),
        work=row.get(WORK),
        speed=speeds.get(row["trial"]),
    )


def _speeds(records: Dataset, study: Study, trials: pl.DataFrame) -> dict[str, float]:
    """Trial -> its speed as a share of that of its point's other trials, where both are known."""
    responses = [name for name in records.responses(study) if metrics.metric(name).better == "higher"]
    if not responses or responses[0] not in trials.columns:
        return {}
    response, design = responses[0], study.design
    usual: dict[tuple[str, ...], list[float]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row[response] is not None:
            usual.setdefault(design.key(row), []).append(row[response])
    found = {}
    for row in trials.iter_rows(named=True):
        middle = statistics.median(usual.get(design.key(row), [0.0]))
        if row[response] is not None and middle > 0:
            found[row["trial"]] = row[response] / middle
    return found
