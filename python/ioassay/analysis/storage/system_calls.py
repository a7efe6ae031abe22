"""Which system calls does the load make, how many a second, and how does that change over the factors?

From the trials that were run once more to count them (`watch.calls`), whose speeds are used for one thing: to say how
much counting slowed them down. Reads counts only; what a call costs is not known here.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay import metrics
from ioassay.analysis.storage import system_calls_text
from ioassay.factors import Design
from ioassay.narrative.finding import Finding
from ioassay.records.record import Scalar
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

QUESTION = "calls"
WORK = "bogo_ops"
"""What calls are told per, where the driver counts it."""
_ENOUGH = 0.8
"""Share of all calls that those which are said to dominate make together."""
_MOST_DOMINANT = 4


@dataclass(frozen=True)
class Point:
    """What was counted at one point."""

    trial: str
    levels: Mapping[str, Scalar]
    by: str
    count: Mapping[str, int]
    """Name -> how often, most frequent first."""
    errors: int
    rate: float
    """Of all together, a second."""
    work: float | None
    """How often WORK was done meanwhile."""
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


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for a study that counts system calls, none for others."""
    trials = _trials(records, study)
    if trials is None or trials.is_empty():
        return []
    points = _points(records, study, trials)
    if not points and "ok" not in records.trials_of(study)["status"].to_list():
        return []  # nothing at all could be run, and others say why
    if not points:
        return [_finding(study, system_calls_text.uncounted(trials), {"points": []}, severity="warning")]
    names = dominant(points)
    numbers = {"dominant": list(names), "points": [_numbers(point) for point in points]}
    found = _finding(study, system_calls_text.statement(study, points, names), numbers)
    uncounted = trials.height - len(points)
    return [
        Finding(
            **{
                **vars(found),
                "tables": system_calls_text.tables(points),
                "caveats": system_calls_text.caveats(points, uncounted),
            }
        )
    ]


def dominant(points: Sequence[Point]) -> Sequence[str]:
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


def _numbers(point: Point) -> dict[str, Any]:
    return {
        "point": dict(point.levels),
        "trial": point.trial,
        "by": point.by,
        "calls": point.total,
        "errors": point.errors,
        "syscalls.rate": point.rate,
        "calls_per_bogo_op": point.per_work,
        "speed": point.speed,
        "rate_at_full_speed": point.rate / point.speed if point.speed and point.work else None,
        "shares": {name: number / point.total for name, number in list(point.count.items())[:10]},
    }


def _finding(study: Study, statement: str, numbers: Mapping[str, Any], severity: str = "info") -> Finding:
    return Finding(
        study=study.name,
        question=QUESTION,
        response="",
        title="System calls",
        statement=statement,
        statistics=plain(numbers),
        severity=severity,
    )
