"""What is asked first of a workload: its IOPS, bandwidth, latency percentiles, and the distribution of its latencies.

For studies whose conditions stand side by side and sweep nothing: named cases, or a single condition. One row a
direction, since a mean over reads and writes would be that of neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioassay.analysis.measurements import merged_histograms
from ioassay.analysis.measurements.cells import Cell, cells, interval
from ioassay.factors import CASE
from ioassay.metrics import DIRECTIONS
from ioassay.stats.result import Undefined, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay._core import Histogram

RATE, VOLUME = "iops", "bw"
LATENCIES = ("lat.p50", "lat.p99", "lat.p99.9")
MOST_WORKLOADS = 12


@dataclass(frozen=True)
class Value:
    """A mean over repetitions, or a percentile of all requests, in the metric's unit; 95 % interval."""

    mean: float
    ci95: tuple[float, float] | None

    @property
    def half_width(self) -> float | None:
        """Of the interval's wider side, as a share of the mean; None where there is no interval, or the mean is 0."""
        return None if self.ci95 is None or not self.mean else (self.ci95[1] - self.mean) / self.mean


@dataclass(frozen=True)
class Profile:
    """One direction of one workload. `values` by RATE, VOLUME and LATENCIES, as far as they were measured."""

    workload: str
    direction: str
    repetitions: int
    values: Mapping[str, Value]
    latencies: Histogram | None
    """Of all requests of all repetitions."""

    def metric(self, quantity: str) -> str:
        """The quantity's name in the registry of metrics."""
        return f"{self.direction}.{quantity}"


def profiles(records: Dataset, study: Study) -> list[Profile]:
    """A row a workload and direction; none where the study sweeps a factor, or no rates and latencies were measured."""
    varied = {name for name, levels in study.levels.items() if len(levels) > 1}
    if varied - {CASE} or records.tuning is not None:
        return []
    rows: dict[tuple[str, str], dict[str, Cell]] = {}
    places: dict[str, tuple[int, ...]] = {}
    for direction in DIRECTIONS:
        for quantity in (RATE, VOLUME, *LATENCIES):
            for cell in cells(records, study, f"{direction}.{quantity}").cells:
                rows.setdefault((cell.label, direction), {})[quantity] = cell
                places[cell.label] = study.design.place(cell.point)
    complete = [
        _profile(f"{workload}{_depth(study, workload)}", direction, measured)
        for (workload, direction), measured in sorted(rows.items(), key=lambda item: places[item[0][0]])
        if RATE in measured and LATENCIES[0] in measured
    ]
    return complete if len(complete) <= MOST_WORKLOADS else []


def _depth(study: Study, workload: str) -> str:
    """The depth of a case whose name leaves it out: a median latency means nothing without it."""
    own = next((case for case in study.case if case.get("name") == workload), {})
    depth = own.get("iodepth", 1)
    return f", depth {depth}" if depth != 1 and "depth" not in workload else ""


def _profile(workload: str, direction: str, measured: Mapping[str, Cell]) -> Profile:
    values = {quantity: _value(f"{direction}.{quantity}", cell) for quantity, cell in measured.items()}
    parts: Sequence[Histogram] = measured[LATENCIES[0]].histograms
    merged = merged_histograms.merged(parts) if parts else None
    return Profile(workload, direction, int(measured[RATE].values.size), values, merged)


def _value(name: str, cell: Cell) -> Value:
    found = interval(name, cell)
    return Value(mean_of(cell.values), None if isinstance(found, Undefined) else (found.low, found.high))
