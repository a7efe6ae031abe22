"""The rounds of a study that runs until steady state: what each point measured in each, and the window at their end.

SNIA's rule is `stats.sample.steady_state`, by which the runner ended the rounds. Results are averages over the window,
the last five rounds, whether or not the drive was steady in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ioassay.analysis.measurements import memoized
from ioassay.factors import level_key, same_level
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Floats
from ioassay.stats.sample import ROUNDS, SteadyState, steady_state
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

Row = Mapping[str, Any]
MOST = ".lat.max"
MEAN = ".lat.mean"


@dataclass(frozen=True)
class Point:
    """One point of the study: a row of the frame of trials for each round that went well."""

    levels: Mapping[str, Scalar]
    rows: Mapping[int, Row]
    reason: str
    """Why its first trial did not go well; '' where it did."""

    def values(self, metric: str) -> dict[int, float]:
        """Round -> value, in the metric's unit; rounds without one are missing."""
        found = {number: value_of(row, metric) for number, row in sorted(self.rows.items())}
        return {number: value for number, value in found.items() if value is not None}

    def window(self, metric: str, last: int) -> Floats:
        """The values of the window that ends with round `last`."""
        known = self.values(metric)
        return np.array([known[number] for number in known if last - ROUNDS < number <= last], dtype=np.float64)

    def average(self, metric: str, last: int) -> float | None:
        """Over the window; the largest value where the metric is a maximum. None without any."""
        values = self.window(metric, last)
        if not values.size:
            return None
        return float(values.max() if metric.endswith(MOST) else values.mean())

    def has(self, levels: Mapping[str, Scalar]) -> bool:
        return all(same_level(name, level, self.levels.get(name)) for name, level in levels.items())


@dataclass(frozen=True)
class Rounds:
    """All rounds of a study; `last` is the number of the last one in which anything went well, from 0."""

    study: Study
    points: Sequence[Point]
    last: int

    @cached_property
    def tracked(self) -> list[Point]:
        """The points that have to be steady; the only one of a study that ends by what was written."""
        until = self.study.until
        assert until is not None
        found = [point for point in self.points if until.tracks(point.levels)]
        return found or (list(self.points) if len(self.points) == 1 else [])

    def state(self, point: Point) -> SteadyState | None:
        """Of the variable that is tracked at the last round; None for fewer than five rounds in a row."""
        assert self.study.until is not None
        window = point.window(self.study.until.metric, self.last)
        found = steady_state(window) if window.size == ROUNDS else None
        return found if isinstance(found, SteadyState) else None

    @property
    def attained(self) -> bool:
        """Whether all points that have to be steady are."""
        states = [self.state(point) for point in self.tracked]
        return bool(states) and all(state is not None and state.attained for state in states)

    @property
    def written(self) -> list[float]:
        """Bytes that were written up to the end of each round."""
        each = [sum(point.rows.get(number, {}).get("write.bytes") or 0.0 for point in self.points) for number in self]
        return [float(number) for number in np.cumsum(each)]

    def __iter__(self) -> Any:
        return iter(range(self.last + 1))

    def at(self, **levels: Scalar) -> Point | None:
        return next((point for point in self.points if point.has(levels)), None)


@memoized
def rounds(records: Dataset, study: Study) -> Rounds | None:
    """The rounds of a study; None for one that has none, or of which nothing went well."""
    if study.until is None or not study.until.of_rounds:
        return None
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        found.setdefault(tuple(level_key(name, row[name]) for name in study.levels), []).append(row)
    points = []
    for rows in found.values():
        good = {int(row["repetition"]): row for row in rows if row["status"] == OK}
        points.append(Point(study.design.point(rows[0]), good, "" if good else str(rows[0]["reason"] or "")))
    points.sort(key=lambda point: study.design.place(point.levels))
    last = max((number for point in points for number in point.rows), default=-1)
    return Rounds(study, points, last) if last >= 0 else None


def value_of(row: Row, metric: str) -> float | None:
    """A metric of a trial. Of all its requests together a latency is made of those of reads and writes."""
    if metric.startswith("total.lat."):
        own: list[tuple[float, float]] = [
            (row.get(f"{way}.ios") or 0.0, value)
            for way in ("read", "write")
            if (value := row.get(f"{way}.{metric.removeprefix('total.')}")) is not None
        ]
        requests = sum(number for number, _ in own)
        if not requests:
            return None
        return max(value for _, value in own) if metric.endswith(MOST) else sum(n * v for n, v in own) / requests
    value = row.get(metric)
    return None if value is None else float(value)
