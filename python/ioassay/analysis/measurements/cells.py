"""The repetitions of every condition for one response: what almost every analysis starts from; and what is missing.

A failed or skipped trial has no value here, and a condition where the response does not occur (reads at 100 %
writes) has no cell; both are counted, so that every analysis can say what it left out.

A percentile of a latency is that of the merged histograms of a condition's repetitions, wherever all its trials have
kept theirs, and never a mean of percentiles (`stats.percentiles`). One repetition has its own and no interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ioassay import metrics
from ioassay.analysis.measurements import memoized
from ioassay.factors import CASE, LOADS, SERVED, LevelIndex, level_key, level_number, level_word, offers
from ioassay.metrics import DIRECTIONS, LowerBound
from ioassay.records.record import FAILED, OK, SKIPPED, Scalar
from ioassay.stats.condition_means import ConditionMeans, fit
from ioassay.stats.modes import Modes, modes
from ioassay.stats.percentiles import percentile_intervals, pseudo_values
from ioassay.stats.result import Floats, Interval, Undefined, mean_of
from ioassay.stats.sample import ROUNDS, mean_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

    from ioassay._core import Histogram

Ints = npt.NDArray[np.int64]
Key = tuple[tuple[str, str], ...]
SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True)
class OfferedLoad:
    """The rate that all jobs of a condition offered, in the unit of `metric`, and the condition's own, as `rate`."""

    metric: str
    offered: float
    rate: Cell

    @property
    def served(self) -> float:
        return self.rate.mean

    @property
    def saturated(self) -> bool:
        """Whether fewer requests were served than were offered."""
        return self.served < SERVED * self.offered


@dataclass(frozen=True)
class Cell:
    """One condition: `values` of its repetitions in the order they ran, in the unit of the response.

    Their mean is the value of the condition. `measured` is what each repetition measured by itself: the same, but for
    percentiles of merged histograms, whose `values` are pseudo-values. `order` is the position in the whole run,
    `trials` the trials' ids, `histograms` their latencies; all have the shape (n,), or are empty without histograms.
    """

    point: Mapping[str, Scalar]
    values: Floats
    measured: Floats
    repetition: Ints
    order: Ints
    trials: tuple[str, ...]
    histograms: tuple[Histogram, ...] = ()
    load: OfferedLoad | None = None
    """Of a latency that counts from the issue of requests, where they were offered at a rate."""

    @property
    def mean(self) -> float:
        """The value of the condition; a lower bound of latencies where requests waited to be issued."""
        mean = mean_of(self.values)
        return LowerBound(mean) if self.load and self.load.saturated else mean

    @property
    def label(self) -> str:
        return label(self.point)


@dataclass(frozen=True)
class Cells:
    """All conditions of one study with values of one response, in the study's order.

    `factors` holds only levels that have values. `absent`: conditions that ran but have no such response;
    `failed` and `skipped`: numbers of trials that are left out; `implausible`: of values that are no measurement;
    `lost`: conditions of which no trial went well; `exact`: computed, so that nothing in them is chance.
    """

    study: str
    response: str
    factors: Mapping[str, tuple[Scalar, ...]]
    cells: tuple[Cell, ...]
    absent: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    failed: int = 0
    skipped: int = 0
    implausible: int = 0
    exact: bool = False

    @property
    def groups(self) -> list[Floats]:
        return [cell.values for cell in self.cells]

    def fit(self) -> ConditionMeans | Undefined:
        return fit(self.groups, [cell.repetition for cell in self.cells], exact=self.exact)

    @cached_property
    def modes(self) -> Modes | None:
        """The two modes of the repetitions, where they have two."""
        return modes(self.groups) if not self.exact else None

    @property
    def merged(self) -> bool:
        """Whether the values are percentiles of merged histograms."""
        return any(cell.histograms for cell in self.cells)

    def varying(self) -> list[str]:
        """Factors with two levels or more that have values."""
        return [name for name, levels in self.factors.items() if len(levels) > 1]

    def column(self, factor: str) -> list[str]:
        """What level of the factor each value has, cell by cell: equal where the levels are the same."""
        return [level_key(factor, cell.point[factor]) for cell in self.cells for _ in cell.values]

    def grid(self, *factors: str) -> list[dict[tuple[str, ...], int]]:
        """For each combination of the other factors' levels: levels of these factors -> index of their condition."""
        found: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for index, cell in enumerate(self.cells):
            keys = {name: level_key(name, cell.point[name]) for name in self.factors}
            others = tuple(key for name, key in keys.items() if name not in factors)
            found.setdefault(others, {})[tuple(keys[name] for name in factors)] = index
        return [*found.values()]

    def slices(self, factor: str) -> list[Cells]:
        """One set for each combination of the other factors' levels, in which only `factor` varies."""
        parts = [[self.cells[index] for index in row.values()] for row in self.grid(factor)]
        return [replace(self, cells=tuple(own), factors=_present(self.factors, own)) for own in parts]

    def where(self) -> dict[str, Scalar]:
        """The levels that all conditions share, of factors that the study varies."""
        return {name: levels[0] for name, levels in self.factors.items() if len(levels) == 1 and len(self.factors) > 1}


@memoized
def cells(records: Dataset, study: Study, response: str) -> Cells:
    """Collect the values of `response`, of trials that count; a missing column gives no cells."""
    factors, design, trials = study.levels, study.design, that_count(records, study)
    performed = f"{response.partition('.')[0]}.ios"
    wanted = dict.fromkeys(("trial", "status", "repetition", "order", *factors, response, performed))
    conditions = _conditions(design, trials.select([name for name in wanted if name in trials.columns]))
    in_order, found = sorted(conditions, key=lambda rows: design.place(rows[0])), list[Cell]()
    for rows in in_order:
        # A direction without a single request has no rate, even where a tool says 0.
        kept = [row for row in rows if row["status"] == OK and plausible(row.get(response))]
        kept = [row for row in kept if row.get(performed, 1.0) != 0]
        measured = np.array([row[response] for row in kept], dtype=np.float64)
        repetition, order = (np.array([row[name] for row in kept], dtype=np.int64) for name in ("repetition", "order"))
        trial_ids = tuple(str(row["trial"]) for row in kept)
        found.append(Cell(design.point(rows[0]), measured, measured, repetition, order, trial_ids))
    if percentile := metrics.latency_percentile(response):
        known = trial_histograms(records, study, percentile.direction, percentile.kind)
        if all(trial in known for cell in found for trial in cell.trials):
            histograms = [tuple(known[trial] for trial in cell.trials) for cell in found]
            found = [_of_requests(cell, own, percentile.percent) for cell, own in zip(found, histograms, strict=True)]
    if metrics.counts_from_issue(response) and not records.driver(study).counts_from_arrival:
        loads = offered_loads(records, study)
        found = [replace(cell, load=loads.get(point_key(cell.point))) for cell in found]
    present = [cell for cell in found if cell.values.size]
    good = [[row for row in rows if row["status"] == OK] for rows in in_order]
    values = [value for rows in good for row in rows if (value := row.get(response)) is not None]
    status = trials["status"].to_list()
    return Cells(
        study=study.name,
        response=response,
        factors=_present(factors, present),
        cells=tuple(present),
        absent=tuple(cell.label for cell, rows in zip(found, good, strict=True) if rows and not cell.values.size),
        lost=tuple(cell.label for cell, rows in zip(found, good, strict=True) if not rows),
        failed=status.count(FAILED),
        skipped=status.count(SKIPPED),
        implausible=sum(not plausible(value) for value in values),
        exact=not records.is_measured(study),
    )


@memoized
def offered_loads(records: Dataset, study: Study) -> dict[Key, OfferedLoad]:
    """The load of each condition that offers a rate.

    Of several directions it is the one that is served most: in a mixture the others follow it, whatever they offer.
    """
    found: dict[Key, OfferedLoad] = {}
    named = {*study.params, *study.levels, *(key for case in study.case for key in case)}
    for name, direction in itertools.product(filter(offers, sorted(named.intersection(LOADS))), DIRECTIONS):
        metric = f"{direction}.{offers(name)}"
        for cell in cells(records, study, metric).cells:
            params, key = study.params_at(cell.point), point_key(cell.point)
            rate, jobs = (level_number(one, params.get(one, 1)) for one in (name, "numjobs"))
            is_less = key in found and found[key].metric.endswith(offers(name)) and found[key].served >= cell.mean
            if name in params and rate and jobs and not is_less:
                found[key] = OfferedLoad(metric, rate * jobs, cell)
    return found


def by_key(records: Dataset, study: Study, response: str) -> dict[Key, Cell]:
    """The conditions, each by what finds it in another run."""
    return {point_key(cell.point): cell for cell in cells(records, study, response).cells}


def point_key(point: Mapping[str, Scalar]) -> Key:
    """Equal for the same condition of two runs, whatever the order of its factors and the spelling of levels."""
    return tuple(sorted((name, level_key(name, level)) for name, level in point.items()))


def that_count(records: Dataset, study: Study) -> pl.DataFrame:
    """The trials whose values count: of a search those of its confirmation, since by the others' luck it chose.

    Of rounds until steady state those of the window by which they ended: all before are on the way to it.
    """
    trials = records.trials_of(study)
    if study.until is not None and study.until.of_rounds:
        last = max(trials.filter(status=OK)["repetition"].to_list(), default=0)
        return trials.filter(trials["repetition"] > last - ROUNDS)
    return trials.filter(trials["search"] == "confirm") if "search" in trials.columns else trials


def _conditions(design: LevelIndex, trials: pl.DataFrame) -> list[list[dict[str, Any]]]:
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in trials.iter_rows(named=True):
        found.setdefault(design.key(row), []).append(row)
    return [*found.values()]


def _of_requests(cell: Cell, histograms: tuple[Histogram, ...], percent: float) -> Cell:
    values = pseudo_values(histograms, [percent]).ravel() if histograms else cell.values
    return replace(cell, values=values, histograms=histograms)


def pooled(cells: Sequence[Cell], response: str) -> Cell:
    """Several conditions as one, the first's; percentiles are of all their requests."""
    if len(cells) == 1:
        return cells[0]
    names = ("values", "measured", "repetition", "order")
    values, measured, repetition, order = (np.concatenate([getattr(cell, name) for cell in cells]) for name in names)
    trials = tuple(trial for cell in cells for trial in cell.trials)
    load = next((cell.load for cell in cells if cell.load and cell.load.saturated), None)
    joined = Cell(cells[0].point, values, measured, repetition, order, trials, load=load)
    percentile = metrics.latency_percentile(response)
    if percentile is None or not all(cell.histograms for cell in cells):
        return joined
    return _of_requests(joined, tuple(one for cell in cells for one in cell.histograms), percentile.percent)


def interval(response: str, cell: Cell, confidence: float = 0.95) -> Interval | Undefined:
    """The interval of a condition's value: the one that every table, figure and sentence shows.

    It keeps within what the response can be, and that of a percentile in line with those of other percentiles.
    """
    percentile = metrics.latency_percentile(response)
    if percentile is None or not cell.histograms:
        return mean_interval(cell.values, confidence, metrics.metric(response).bounds)
    percents = sorted({*metrics.PERCENTILES, percentile.percent})
    rows = pseudo_values(cell.histograms, percents)
    return percentile_intervals(rows, confidence)[percents.index(percentile.percent)]


def plausible(value: object) -> bool:
    """Whether a value can be a measurement: a finite number whose square is one, too. None is none."""
    return isinstance(value, int | float) and (value == 0 or SMALLEST <= abs(value) <= LARGEST)


def _present(factors: Mapping[str, tuple[Scalar, ...]], kept: Sequence[Cell]) -> dict[str, tuple[Scalar, ...]]:
    design = LevelIndex(factors)
    return {name: tuple(design.in_order(name, [cell.point[name] for cell in kept])) for name in factors}


def label(point: Mapping[str, Scalar]) -> str:
    """A condition in words: `rw=randrw rwmixwrite=25`; a case by its name; 'all trials' for the only point."""
    words = [str(level) if name == CASE else f"{name}={level_word(level)}" for name, level in point.items()]
    return " ".join(words) or "all trials"


# What a study planned and did not get


@dataclass(frozen=True)
class MissingConditions:
    """Conditions without a single good trial that ended alike: `points` of `status` for `reason`, `trials` in all."""

    status: str
    reason: str
    points: Sequence[Mapping[str, Scalar]]
    trials: int
    factor: str | None
    """The one whose levels are missing in every combination with the others; None where it is single conditions."""
    all_conditions: bool
    """True where these are all conditions of the study."""

    def as_dict(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("status", "reason", "trials")}
        return {**named, "points": [dict(point) for point in self.points]}


def missing(records: Dataset, study: Study) -> list[MissingConditions]:
    """Grouped by how and why their first trials ended; conditions where any trial went well are not missing."""
    design, planned = study.design, math.prod(map(len, study.levels.values()))
    conditions = _conditions(design, records.trials_of(study))
    bad = [rows for rows in conditions if all(row["status"] != OK for row in rows)]
    groups: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for rows in bad:
        groups.setdefault((rows[0]["status"], rows[0]["reason"] or ""), []).append(rows)
    found = []
    for (status, reason), own in groups.items():
        points = [design.point(rows[0]) for rows in own]
        every = len(bad) == len(conditions) and len(own) == planned
        missed = {name: {level_key(name, point[name]) for point in points} for name in study.levels}
        of = {name: planned // max(len(levels), 1) for name, levels in study.levels.items()}  # points of each level
        factor = next((name for name in missed if len(points) == len(missed[name]) * of[name]), None)
        found.append(MissingConditions(status, reason, points, sum(map(len, own)), factor, every))
    return found


_ALL_JOBS = -1


@memoized
def trial_histograms(records: Dataset, study: Study, direction: str, kind: str) -> dict[str, Histogram]:
    """Trial -> the latencies of all its jobs; trials without such requests are left out."""
    if records.hist.is_empty():
        return {}
    return histograms_of_rows(records.hist.filter(study=study.name), direction, kind)


def histograms_of_rows(hist: pl.DataFrame, direction: str, kind: str) -> dict[str, Histogram]:
    """The same of the rows of `hist.parquet`, of one study."""
    import polars as pl

    from ioassay._core import Histogram

    rows = hist.filter(direction=direction, kind=kind)
    whole = rows.filter(job=_ALL_JOBS)["trial"].unique().to_list()
    kept = rows.filter((pl.col("job") == _ALL_JOBS) | ~pl.col("trial").is_in(whole))
    histograms = {
        str(trial): Histogram.from_buckets(part["value_ns"].to_numpy(), part["count"].to_numpy())
        for (trial,), part in kept.partition_by("trial", as_dict=True).items()
    }
    return {trial: histogram for trial, histogram in histograms.items() if histogram.count > 0}
