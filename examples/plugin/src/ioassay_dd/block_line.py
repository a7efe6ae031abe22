"""The time of a block as a line over its size: a fixed cost, and a slope that is the inverse of a bandwidth."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay import units
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

TIME = "dd.block_time"
LEAST_SIZES = 3


@dataclass(frozen=True)
class Line:
    """Least squares over the medians of each size."""

    sizes_bytes: Sequence[int]
    times_ns: Sequence[float]
    fixed_ns: float
    ns_per_byte: float

    @property
    def deviation(self) -> float:
        """The largest distance of a median from the line, relative to the median."""
        pairs = zip(self.sizes_bytes, self.times_ns, strict=True)
        return max(abs(self.fixed_ns + self.ns_per_byte * size - time) / time for size, time in pairs)


def line(records: Dataset, study: Study) -> Line | None:
    """The line of a study with a factor `bs` of three sizes or more; None for any other."""
    trials = records.trials_of(study)
    if "bs" not in study.factors or TIME not in trials.columns:
        return None
    found: dict[int, list[float]] = {}
    for row in trials.iter_rows(named=True):
        if row["status"] == "ok" and row[TIME] is not None:
            found.setdefault(units.parse_size(row["bs"]), []).append(row[TIME])
    if len(found) < LEAST_SIZES:
        return None
    sizes = sorted(found)
    times = [statistics.median(found[size]) for size in sizes]
    slope, intercept = statistics.linear_regression(sizes, times)
    return Line(sizes, times, intercept, slope)
