"""How large is it, and how well is that known? Mean, median, deviation and intervals of every condition.

The repetition is the unit: n is the number of trials, never of log samples. Outliers are flagged, not removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ioassay.analysis.measurements.cells import Cell, Cells, cells, interval
from ioassay.stats.result import Floats, Interval, Undefined, mean_of
from ioassay.stats.sample import Moments, Outlier, mean_interval, moments, outliers
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Summary:
    """One condition described; `interval` is that of its value.

    `moments` has that mean, which may be a percentile of all requests; the others are of what repetitions measured.
    """

    cell: Cell
    moments: Moments
    interval: Interval | Undefined
    outliers: tuple[Outlier, ...]


@dataclass(frozen=True)
class Description:
    """All conditions of one response, in the study's order."""

    cells: Cells
    confidence: float
    conditions: tuple[Summary, ...]

    @property
    def fewest(self) -> int:
        """Repetitions of the condition that has fewest."""
        return min(summary.moments.n for summary in self.conditions)


def analyse(records: Dataset, study: Study) -> list[Description]:
    """One description for each response that has values."""
    collected = [cells(records, study, response) for response in records.responses(study)]
    confidence = study.analysis.confidence
    return [Description(part, confidence, tuple(summaries(part, confidence))) for part in collected if part.cells]


def summaries(found: Cells, confidence: float) -> list[Summary]:
    """Every condition described, in the order of `found`."""
    return [
        Summary(
            cell,
            replace(moments(cell.measured), mean=mean_of(cell.values)),
            interval(found.response, cell, confidence),
            tuple(outliers(cell.measured)),
        )
        for cell in found.cells
    ]


def relative_half_width(values: Sequence[float] | Floats, confidence: float = 0.95) -> float:
    """Half the width of the interval as a share of the mean: what adaptive repetition waits for.

    Infinite where there is no interval (fewer than two values) or the mean is 0.
    """
    found = mean_interval(values, confidence)
    mean = moments(values).mean if len(values) else 0.0
    if isinstance(found, Undefined) or mean == 0:
        return float("inf")
    return (found.high - found.low) / 2 / abs(mean)
