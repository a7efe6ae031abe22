"""Axes: the unit that a metric's numbers are best read in, and the positions and labels of ticks.

Linear axes are divided into one unit, named in the axis title, as in print (`Read bandwidth (MB/s)`).
Logarithmic time axes span too much for one unit: their ticks carry it (`10 µs`, `1 ms`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ioassay.metrics import metric

_COUNTS = ("", "thousands", "millions")
_RATES = ("1/s", "k/s", "M/s", "G/s")
_THOUSANDS = {
    "bytes/s": ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"),
    "ns": ("ns", "µs", "ms", "s"),
    "IOPS": _COUNTS,
    "requests": _COUNTS,
    "bogo ops": _COUNTS,
    "bogo ops/s": _RATES,
    "ops/s": ("ops/s", "k ops/s", "M ops/s"),
    "1/s": _COUNTS,  # labels of these say that they are rates
    **dict.fromkeys(("switches", "faults", "processes", "threads", "tasks", "workers", "blocks", "pages"), _COUNTS),
}
_BINARY = {"bytes": ("B", "KiB", "MiB", "GiB", "TiB")}


@dataclass(frozen=True)
class Unit:
    """What stored numbers are divided by to be shown, and the name of the result ('' for none)."""

    divisor: float
    name: str

    def scale(self, number: float) -> float:
        """A stored number in this unit, to seven digits: more would only make the page larger."""
        return float(f"{number / self.divisor:.7g}")

    def titled(self, label: str) -> str:
        """An axis title: label and unit."""
        return f"{label} ({self.name})" if self.name else label


def unit_for(name: str, numbers: Iterable[float]) -> Unit:
    """`best_unit` of the metric's unit."""
    return best_unit(metric(name).unit, numbers)


def best_unit(unit: str, numbers: Iterable[float]) -> Unit:
    """The multiple of `unit` in which the largest of `numbers` has one to three digits before the point."""
    largest = max((abs(number) for number in numbers), default=0.0)
    for base, names in ((1000.0, _THOUSANDS.get(unit)), (1024.0, _BINARY.get(unit))):
        if names:
            step = 0
            while step < len(names) - 1 and largest >= base ** (step + 1):
                step += 1
            return Unit(base**step, names[step])
    return Unit(1.0, unit)


def labels_at(labels: Mapping[float, str]) -> str:
    """A Vega expression that labels the ticks at the given positions, and no others."""
    table = json.dumps(
        {f"{position:g}" if position % 1 else str(int(position)): text for position, text in labels.items()}
    )
    return f"({table})[datum.value] || ''"


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: decades, and 1-2-5 steps where decades are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1,) if last - first > 4 else (1, 2, 5)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
