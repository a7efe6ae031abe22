"""Encodings that several kinds of figure share: an axis over a factor's levels and an axis of a metric."""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.factors import axis_title, level_axis_numbers, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import scales, selection

MANY_FOLD = 16
"""Numbers that span at least this factor may be seen best on a logarithmic axis."""
_TICKS = 6
_LOG_MARGIN = 1.15
"""A logarithmic axis goes on by this factor at both ends."""
_TWO_LINES_PX = 32
"""Room for a slanted label of two lines."""
_SLANTED = 14
"""Characters in a line of a slanted label."""
_CHARACTER_PX = 6.3
"""Mean width of a character of an axis label."""


@dataclass(frozen=True)
class LevelAxis:
    """How a factor lies on x: at its numbers, or as categories side by side."""

    factor: str
    levels: Sequence[Scalar]
    numbers: Sequence[float] | None
    """None: categories."""
    log: bool = False
    note: str = ""
    """What the reader has to know of it."""

    def position(self, level: Scalar) -> float | str:
        """The value to plot for a level."""
        if self.numbers is None:
            return level_label(self.factor, level)
        return self.numbers[self.levels.index(level)]

    def encoding(self, width_px: int) -> Any:
        """The x channel over the field `x`."""
        return self._categories(width_px) if self.numbers is None else self._numbers(self.numbers)

    def _numbers(self, numbers: Sequence[float]) -> Any:
        import altair as alt

        labels = scales.level_labels(self.factor, self.levels, numbers)
        axis = alt.Axis(values=list(labels), labelExpr=scales.labels_at(labels), labelOverlap="greedy")
        if self.log:
            scale = alt.Scale(type="log", base=2, nice=False, padding=18)
        else:
            scale = alt.Scale(zero=False, nice=False, padding=18)
        return alt.X("x:Q", title=axis_title(self.factor), axis=axis, scale=scale)

    def _categories(self, width_px: int) -> Any:
        import altair as alt

        labels = [level_label(self.factor, level) for level in self.levels]
        room = int(width_px / max(len(labels), 1) / _CHARACTER_PX) - 1
        lines = {label: _wrapped(label, room) for label in labels}
        if max((len(line) for label in labels for line in lines[label]), default=0) > room:
            # Slanted, and so short that they do not reach into a chart at the left.
            if width_px / len(labels) >= _TWO_LINES_PX:
                lines = {label: _wrapped(label, _SLANTED) for label in labels}
            else:
                lines = {label: [label] for label in labels}
            axis = alt.Axis(labelAngle=-35, labelLimit=200, labelExpr=f"({json.dumps(lines)})[datum.value]")
        else:
            axis = alt.Axis(labelAngle=0, labelExpr=f"({json.dumps(lines)})[datum.value]")
        return alt.X("x:N", title=axis_title(self.factor), sort=labels, axis=axis)


def _wrapped(label: str, room: int) -> list[str]:
    """The label's lines; a number is not parted from its unit, nor what stands in parentheses."""
    label = re.sub(r"\([^)]*\)", lambda found: found[0].replace(" ", "\u00a0"), label)
    joined = re.sub(r"(\d) (?=[kKMGT]?i?B\b|[nµm]?s\b)", "\\1\u00a0", label)
    return textwrap.wrap(joined, max(room, 4), break_long_words=False) or [""]


def level_axis(factor: str, levels: Sequence[Scalar], log: bool = False) -> LevelAxis:
    """The axis of a factor; logarithmic only where that is asked for and all levels are positive."""
    numbers = level_axis_numbers(factor, levels)
    if not log or numbers is None:
        note = f"category axis: levels of {factor} are words" if log else ""
        return LevelAxis(factor, levels, numbers, note=note)
    if min(numbers) <= 0:
        return LevelAxis(factor, levels, numbers, note="linear axis: a level is zero")
    return LevelAxis(factor, levels, numbers, log=True)


def category_axis(factor: str, levels: Sequence[Scalar]) -> LevelAxis:
    """The axis of a factor whose levels stand side by side, numbers or not."""
    return LevelAxis(factor, levels, None)


def geometric(factor: str, levels: Sequence[Scalar]) -> bool:
    """Whether levels are seen best on a logarithmic axis: spanning MANY_FOLD, and growing by factors, not by steps."""
    numbers = sorted(level_axis_numbers(factor, levels) or ())
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < MANY_FOLD * numbers[0]:
        return False
    pairs = list(itertools.pairwise(numbers))
    return _unevenness([high / low for low, high in pairs]) < _unevenness([high - low for low, high in pairs])


def _unevenness(steps: Sequence[float]) -> float:
    return statistics.pstdev(steps) / statistics.fmean(steps)


def metric_axis(name: str, unit: scales.Unit, values: Sequence[float], zero: bool = True, ticks: int = _TICKS) -> Any:
    """The linear y channel of a metric in `unit`, over the field `y`; `values` are the stored numbers it shows.

    From zero, so that lengths compare, unless it shows no lengths (`zero=False`). A metric that is never negative
    keeps its axis at zero, even where a regression line or a deviation reaches below.
    """
    import altair as alt

    if zero and not any(values):
        scale = alt.Scale(domain=[0, 1])
    elif zero:
        scale = alt.Scale(zero=True, nice=ticks, domainMin=0 if min(values) >= 0 else alt.Undefined)
    else:
        scale = alt.Scale(zero=False, nice=ticks, padding=8)
    return alt.Y("y:Q", title=_titled(name, unit), scale=scale, axis=alt.Axis(tickCount=ticks))


def log_metric_axis(name: str, unit: scales.Unit, values: Sequence[float]) -> Any:
    """The logarithmic y channel of a metric whose `values` are all positive."""
    import altair as alt

    domain = [unit.scale(log_floor(values)), unit.scale(max(values) * _LOG_MARGIN)]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    axis = alt.Axis(values=scales.log_ticks(*domain), format="~g")
    return alt.Y("y:Q", title=f"{_titled(name, unit)}, logarithmic", scale=scale, axis=axis)


def log_bar_axis(name: str, unit: scales.Unit, values: Sequence[float]) -> tuple[Any, Any]:
    """The same for bars, and where they begin: a bar has no zero there, so it stands on the decade below the least."""
    import altair as alt

    floor = 10.0 ** math.floor(math.log10(min(values) / _LOG_MARGIN))
    return log_metric_axis(name, unit, [*values, floor * _LOG_MARGIN]), alt.Y2Datum(unit.scale(floor))


def linear_floor(values: Sequence[float]) -> float:
    """Where a linear axis that starts at zero can end: nowhere, once a value is negative."""
    return 0.0 if min(values) >= 0 else float("-inf")


def log_floor(values: Sequence[float]) -> float:
    """Where a logarithmic axis begins: error bars that would reach zero or below end there."""
    return min(values) / _LOG_MARGIN


def _titled(name: str, unit: scales.Unit) -> str:
    return unit.titled(selection.metric_label(name))
