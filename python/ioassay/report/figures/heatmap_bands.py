"""Bands of a heatmap: where a level begins and ends on an axis. Sizes and their like are bands on a log2 axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.factors import axis_title, is_size, level_axis_numbers, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import scales
from ioassay.report.figures.spec import VegaLite

_LABEL_PX = 58
"""Room that a horizontal label of a size takes."""


@dataclass(frozen=True)
class Channels:
    """Encodings of one direction: from edge to edge for rectangles, in the middle for text."""

    edges: VegaLite
    middle: VegaLite


@dataclass(frozen=True)
class Bands:
    """One band a level, side by side. `numbers` are the levels' on a log2 axis; None: categories of one width."""

    factor: str
    levels: Sequence[Scalar]
    numbers: Sequence[float] | None

    def place(self, level: Scalar, name: str) -> VegaLite:
        """The fields of a level: `<name>` and `<name>2` its edges, `<name>_middle`, `<name>_share` of the axis."""
        if self.numbers is None:
            return {name: level_label(self.factor, level), f"{name}_share": 1 / len(self.levels)}
        edges = self._edges(self.numbers)
        at = self.levels.index(level)
        low, high = edges[at], edges[at + 1]
        share = math.log2(high / low) / math.log2(edges[-1] / edges[0])
        return {name: low, f"{name}2": high, f"{name}_middle": math.sqrt(low * high), f"{name}_share": share}

    def channels(self, name: str, length_px: int) -> Channels:
        """The encodings of the direction `name`, 'x' or 'y'."""
        return self._categories(name, length_px) if self.numbers is None else self._sizes(name, length_px, self.numbers)

    def _sizes(self, name: str, length_px: int, numbers: Sequence[float]) -> Channels:
        import altair as alt

        labels = scales.level_labels(self.factor, self.levels, numbers)
        edges = self._edges(numbers)
        slanted = {"labelAngle": -40} if name == "x" and length_px / len(numbers) < _LABEL_PX else {}
        axis = alt.Axis(
            values=list(labels),
            labelExpr=scales.labels_at(labels),
            grid=False,
            domain=False,
            labelOverlap=False,
            **slanted,
        )
        scale = alt.Scale(type="log", base=2, domain=[edges[0], edges[-1]], nice=False)
        kind = alt.X if name == "x" else alt.Y
        title = axis_title(self.factor)
        low = kind(f"{name}:Q", title=title, axis=axis, scale=scale)
        middle = kind(f"{name}_middle:Q", title=title, axis=axis, scale=scale)
        return Channels({name: low, f"{name}2": f"{name}2:Q"}, {name: middle})

    def _categories(self, name: str, length_px: int) -> Channels:
        import altair as alt

        labels = [level_label(self.factor, level) for level in self.levels]
        long = max(map(len, labels)) * 6.3 > length_px / len(labels)
        axis = alt.Axis(grid=False, domain=False, ticks=False, labelAngle=-40 if name == "x" and long else 0)
        kind = alt.X if name == "x" else alt.Y
        channel = kind(f"{name}:N", title=axis_title(self.factor), sort=labels, axis=axis)
        return Channels({name: channel}, {name: channel})

    def _edges(self, numbers: Sequence[float]) -> list[float]:
        """Between two neighbours their geometric middle; the ends are as far out as the next edge is in."""
        inner = [math.sqrt(one * other) for one, other in itertools.pairwise(numbers)]
        if not inner:
            return [numbers[0] / math.sqrt(2), numbers[0] * math.sqrt(2)]
        return [numbers[0] ** 2 / inner[0], *inner, numbers[-1] ** 2 / inner[-1]]


def bands(factor: str, levels: Sequence[Scalar]) -> Bands:
    """Bands of the levels; sizes ascend, whatever their order in the study."""
    numbers = level_axis_numbers(factor, levels) if is_size(factor) else None
    if numbers is None or min(numbers) <= 0:
        return Bands(factor, levels, None)
    ranked = sorted(zip(numbers, levels, strict=True), key=lambda pair: pair[0])
    return Bands(factor, [level for _, level in ranked], [number for number, _ in ranked])
