"""How large is every condition, and how well is that known? Means of responses and percentiles of latencies.

The repetition is the unit: n is the number of trials, never of log samples. Outliers are flagged, not removed.
A percentile is that of all repetitions' requests together (`measurements.cells`), and its interval is over repetitions.
The binomial interval inside the merged histogram is given too, labelled naive: it counts every request as independent.
No condition is compared with another here.

Profiles have what is asked first of a workload: its IOPS, bandwidth, latency percentiles, and the distribution of its
latencies. They are for studies whose conditions stand side by side and sweep nothing: named cases, or a single
condition. They have one row a direction, since a mean over reads and writes would be that of neither.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements.cells import (
    Cell,
    Cells,
    cells,
    interval,
    offered_loads,
    point_key,
    that_count,
    trial_histograms,
)
from ioassay.factors import CASE, level_axis_numbers
from ioassay.metrics import DIRECTIONS, PERCENTILES, LowerBound
from ioassay.records.record import OK, Scalar
from ioassay.stats.condition_means import ConditionMeans, Scale, fit
from ioassay.stats.contrasts import repetitions_for
from ioassay.stats.percentiles import merge_histograms, percentile_intervals, pseudo_values
from ioassay.stats.result import Floats, Interval, Undefined, as_floats
from ioassay.stats.sample import ROUNDS, Moments, SteadyState, mean_interval, moments, outliers, steady_state
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

_RECORDED = tuple(itertools.product(DIRECTIONS, reversed(metrics.LATENCY_KINDS)))
FEW_BEYOND = 10
"""Requests that must lie beyond a percentile before it means anything: below, single requests decide it."""


@dataclass(frozen=True)
class Flagged:
    """What one repetition measured, an outlier `score` deviations away."""

    trial: str
    repetition: int
    value: float
    score: float


@dataclass(frozen=True)
class Summary:
    """One condition described; `interval` is that of its value.

    `moments` has that mean, which may be a percentile of all requests; the others are of what repetitions measured.
    """

    point: Mapping[str, Scalar]
    moments: Moments
    interval: Interval | Undefined
    outliers: tuple[Flagged, ...]


@dataclass(frozen=True)
class Description:
    """All conditions of one response, in the study's order."""

    cells: Cells
    conditions: tuple[Summary, ...]

    @property
    def latencies(self) -> tuple[str, str] | None:
        """Direction and kind, where it is of a percentile of all requests that their distribution has."""
        found = metrics.latency_percentile(self.cells.response) if self.cells.merged else None
        return (found.direction, found.kind) if found and found.percent in PERCENTILES else None


@dataclass(frozen=True)
class ConditionMean:
    """One response of one condition, in the metric's unit: its mean, of a percentile that of all its requests."""

    study: str
    workload: str
    """The condition in words."""
    point: Mapping[str, Scalar]
    metric: str
    unit: str
    mean: float
    median: float
    """Of the repetitions."""
    ci95: tuple[float, float] | None
    """Always of 95 %; None for one repetition."""
    repetitions: int

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lower_bound": isinstance(self.mean, LowerBound)}


@dataclass(frozen=True)
class Percentile:
    """One percentile in ns. `value` of all requests; `interval` over repetitions; `naive` binomial.

    `beyond` is the number of requests expected above it.
    """

    percent: float
    value: float
    interval: Interval | Undefined
    naive: Interval | Undefined
    beyond: float

    @property
    def sparse(self) -> bool:
        """Return True where single requests decide the value."""
        return self.beyond < FEW_BEYOND


@dataclass(frozen=True)
class Latencies:
    """One condition: its merged requests, and each percentile of PERCENTILES."""

    point: Mapping[str, Scalar]
    repetitions: int
    requests: int
    mean_ns: float
    percentiles: tuple[Percentile, ...]

    def at(self, percent: float) -> Percentile:
        return self.percentiles[PERCENTILES.index(percent)]


@dataclass(frozen=True)
class Distribution:
    """Latencies of one direction and kind, of all conditions in the study's order.

    `responses`: the study's responses that are percentiles of it.
    """

    direction: str
    kind: str
    conditions: tuple[Latencies, ...]
    responses: tuple[Description, ...]


def analyse(records: Dataset, study: Study) -> list[Description | Distribution]:
    """One description for each response that has values, then each direction and kind of latency that was recorded.

    A percentile of all requests is described with its distribution.
    """
    described = []
    for part in (cells(records, study, response) for response in records.responses(study)):
        summaries = []
        for cell in part.cells:
            values, places = cell.measured, cell.repetition
            flagged = tuple(
                Flagged(cell.trials[one.index], int(places[one.index]), float(values[one.index]), one.score)
                for one in outliers(values)
            )
            own = interval(part.response, cell, study.analysis.confidence)
            summaries.append(Summary(cell.point, replace(moments(values), mean=cell.mean), own, flagged))
        described += [Description(part, tuple(summaries))] if summaries else []
    kernels = {one.latencies for one in described if one.latencies} - {*_RECORDED}  # as far as they are asked for
    distributions = {
        of: Distribution(*of, conditions, tuple(one for one in described if one.latencies == of))
        for of in (*_RECORDED, *sorted(kernels))
        if (conditions := _latencies(records, study, *of))
    }
    return [*(one for one in described if one.latencies not in distributions), *distributions.values()]


def headline(records: Dataset, studies: Sequence[Study]) -> list[ConditionMean]:
    """The rows that a person wants to see first, one for each study, condition and response, conditions outermost."""
    rows = []
    for study in studies:
        each = [cells(records, study, response) for response in records.responses(study)]
        own = [_mean(found, cell) for found in each for cell in found.cells]
        rows += sorted(own, key=lambda row: study.design.place(row.point))
    return rows


def _mean(found: Cells, cell: Cell) -> ConditionMean:
    known = interval(found.response, cell)
    return ConditionMean(
        study=found.study,
        workload=cell.label,
        point=dict(cell.point),
        metric=found.response,
        unit=metrics.metric(found.response).unit,
        mean=cell.mean,
        median=moments(cell.measured).median,
        ci95=None if isinstance(known, Undefined) else (known.low, known.high),
        repetitions=int(cell.values.size),
    )


def relative_half_width(values: Sequence[float] | Floats, confidence: float = 0.95) -> float:
    """Half the width of the interval as a share of the mean: what adaptive repetition waits for.

    Infinite where there is no interval (fewer than two values) or the mean is 0.
    """
    found = mean_interval(values, confidence)
    mean = moments(values).mean if len(values) else 0.0
    if isinstance(found, Undefined) or mean == 0:
        return float("inf")
    return (found.high - found.low) / 2 / abs(mean)


def end_steady(variables: Sequence[Mapping[int, float]]) -> bool:
    """Whether all variables, each a value a round, end in steady state over the same five rounds, one after another."""
    ends = [sorted(rounds)[-ROUNDS:] for rounds in variables]
    if any(end != ends[0] or len(end) < ROUNDS or end[-1] - end[0] >= ROUNDS for end in ends):
        return False
    found = [steady_state(as_floats([one[round_] for round_ in ends[0]])) for one in variables]
    return all(isinstance(state, SteadyState) and state.attained for state in found)


def _latencies(records: Dataset, study: Study, direction: str, kind: str) -> tuple[Latencies, ...]:
    """Every condition that has histograms of this direction and kind, in the study's order."""
    known, design = trial_histograms(records, study, direction, kind), study.design
    late = {key for key, load in offered_loads(records, study).items() if load.saturated}
    late = late if metrics.counts_from_issue(f"{direction}.{kind}.mean") else set()
    grouped: dict[tuple[str, ...], tuple[dict[str, Scalar], list[Histogram]]] = {}
    for row in that_count(records, study).iter_rows(named=True):
        if row["status"] == OK and row["trial"] in known:
            grouped.setdefault(design.key(row), (design.point(row), []))[1].append(known[row["trial"]])
    found, confidence = [], study.analysis.confidence
    unbounded = Undefined("too few requests to bound this percentile on both sides")
    for point, parts in sorted(grouped.values(), key=lambda condition: design.place(condition[0])):
        merged, percentiles, shown = merge_histograms(parts), [], LowerBound if point_key(point) in late else float
        intervals = percentile_intervals(pseudo_values(parts, PERCENTILES), confidence)
        for percent, bounds in zip(PERCENTILES, intervals, strict=True):
            ends = merged.quantile_interval(percent / 100, confidence)
            naive = Interval(*ends, confidence, "binomial") if np.isfinite(ends).all() else unbounded
            beyond = merged.count * (1 - percent / 100)
            percentiles.append(Percentile(percent, shown(merged.quantile(percent / 100)), bounds, naive, beyond))
        found.append(Latencies(point, len(parts), merged.count, shown(merged.mean or 0.0), tuple(percentiles)))
    return tuple(found)


RATE, VOLUME = "iops", "bw"
LATENCIES = ("lat.p50", "lat.p99", "lat.p99.9")
MOST_WORKLOADS = 12


@dataclass(frozen=True)
class Profile:
    """One direction of one workload. `values` by RATE, VOLUME and LATENCIES, as far as they were measured."""

    workload: str
    direction: str
    repetitions: int
    values: Mapping[str, ConditionMean]
    latencies: Histogram | None
    """Of all requests of all repetitions."""

    def metric(self, quantity: str) -> str:
        return f"{self.direction}.{quantity}"


def profiles(records: Dataset, study: Study) -> list[Profile]:
    """A row a workload and direction; none where the study sweeps a factor, or no rates and latencies were measured.

    A study with limits has rows of their directions alone, also of synchronisations, which have no rate.
    """
    varied = {name for name, levels in study.levels.items() if len(levels) > 1}
    if varied - {CASE} or records.tuning is not None:
        return []
    rows: dict[tuple[str, str], dict[str, tuple[ConditionMean, Cell]]] = {}
    limited = dict.fromkeys(map(metrics.direction_of, study.analysis.limits))
    for direction, quantity in itertools.product(limited or DIRECTIONS, (RATE, VOLUME, *LATENCIES)):
        found = cells(records, study, f"{direction}.{quantity}")
        for cell in found.cells:
            rows.setdefault((cell.label, direction), {})[quantity] = _mean(found, cell), cell
    complete = []
    for (workload, direction), measured in rows.items():
        if LATENCIES[0] not in measured or (RATE not in measured and not limited):
            continue
        # The depth of a case whose name leaves it out: a median latency means nothing without it.
        depth = next((case.get("iodepth", 1) for case in study.case if case.get("name") == workload), 1)
        title = f"{workload}, depth {depth}" if depth != 1 and "depth" not in workload else workload
        parts = measured[LATENCIES[0]][1].histograms
        merged = merge_histograms(parts) if parts else None
        values = {quantity: mean for quantity, (mean, _) in measured.items()}
        complete.append(Profile(title, direction, values[LATENCIES[0]].repetitions, values, merged))
    complete.sort(key=lambda profile: study.design.place(profile.values[LATENCIES[0]].point))
    return complete if len(complete) <= MOST_WORKLOADS else []


NOISES = (0.01, 0.03, 0.1)
"""What to plan for where no noise is known: a quiet machine, a usual one, a busy one."""


@dataclass(frozen=True)
class RepetitionPlan:
    """Repetitions of each point that show a difference of `margin`, at `noise` (deviation as a share of the mean).

    `response` is empty where the noise is assumed.
    """

    study: str
    response: str
    noise: float
    margin: float
    repetitions: int


def repetition_plan(study: Study, margin: float, noise: float, response: str = "") -> RepetitionPlan:
    """What the factor needs that needs most, since levels and places share the risk; without factors two conditions."""
    sizes = {factor: len(levels) for factor, levels in study.levels.items() if len(levels) > 1}
    points, confidence = math.prod(sizes.values()), study.analysis.confidence
    numbers = [
        repetitions_for(
            noise,
            size,
            confidence,
            margin=margin,
            lines=size > 2 and level_axis_numbers(factor, study.levels[factor]) is not None,
            share=points // size,
        )
        for factor, size in sizes.items()
    ]
    most = max(numbers, default=repetitions_for(noise, 2, confidence, margin=margin))
    return RepetitionPlan(study.name, response, noise, margin, most)


def noise_of_responses(study: Study, earlier: Dataset) -> dict[str, float]:
    """Response -> its noise, in the study of that name of an earlier run, as far as it repeats a condition."""
    noises = {}
    for known in (one for one in earlier.studies if one.name == study.name):
        for response in earlier.responses(known):
            found = cells(earlier, known, response)
            model = fit(found.groups, [cell.repetition for cell in found.cells]) if found.cells else None
            if isinstance(model, ConditionMeans) and model.scale == Scale.LOG:
                noises[response] = math.sqrt(float((model.squared_errors * model.sizes).mean()))
    return noises
