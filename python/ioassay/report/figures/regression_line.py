"""Regression lines of a trend: fitted to all repetitions, linear in x or in log2 x as the axis is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ioassay.factors import is_percent, is_size, level_label, step_label
from ioassay.metrics import metric
from ioassay.records.record import Scalar
from ioassay.report.figures import scales, statistics
from ioassay.report.figures.axes import LevelAxis
from ioassay.report.figures.condition_rows import Condition
from ioassay.report.figures.spec import VegaLite

if TYPE_CHECKING:
    from ioassay.stats.least_squares import Line

_STEPS = 40
"""Segments of a drawn line: enough for a smooth curve where one of the axes is logarithmic."""


def fits(conditions: Sequence[Condition], axis: LevelAxis, confidence: float) -> dict[Scalar | None, Line]:
    """The line of each colour group that has one; none for levels that are words."""
    found = {}
    for group in dict.fromkeys(condition.group for condition in conditions):
        members = [condition for condition in conditions if condition.group == group]
        pairs = [(_regressor(axis, member.level), value) for member in members for value in member.measured]
        known = [(x, y) for x, y in pairs if x is not None]
        if line := statistics.fit_line([x for x, _ in known], [y for _, y in known], confidence):
            found[group] = line
    return found


def _regressor(axis: LevelAxis, level: Scalar) -> float | None:
    if axis.numbers is None:
        return None
    number = axis.numbers[axis.levels.index(level)]
    return math.log2(number) if axis.log else number


def rows(
    found: Mapping[Scalar | None, Line], axis: LevelAxis, unit: scales.Unit, color: str | None, floor: float
) -> list[VegaLite]:
    """Points along each line over the levels' range, where it is not below `floor` (in `unit`), the axis's end."""
    if axis.numbers is None:
        return []
    low, high = (math.log2(end) if axis.log else end for end in (min(axis.numbers), max(axis.numbers)))
    drawn = []
    for group, line in found.items():
        named = {} if color is None or group is None else {"group": level_label(color, group)}
        for step in range(_STEPS + 1):
            x = low + (high - low) * step / _STEPS
            y = unit.scale(line.at(x))
            if y >= floor:
                drawn.append({"x": float(f"{2**x if axis.log else x:.7g}"), "y": y, **named})
    return drawn


def text(found: Mapping[Scalar | None, Line], axis: LevelAxis, name: str) -> str:
    """The line of a figure without colours in words: `regression: +12.1 MB/s per doubling, R² = 0.98`."""
    line = found.get(None)
    if line is None or line.slope == 0:
        return ""
    slope = metric(name).format(abs(line.slope) * _step(axis)[0])
    return f"regression {'−' if line.slope < 0 else '+'}{slope} {_step(axis)[1]}, R² = {line.r2:.3f}"


def _step(axis: LevelAxis) -> tuple[float, str]:
    """The step of x that a slope is told for, and its name."""

    if axis.log:
        return 1.0, "per doubling"
    if is_size(axis.factor):
        return 1024.0, "per KiB"
    return 1.0, "per percentage point" if is_percent(axis.factor) else f"per {step_label(axis.factor)}"
