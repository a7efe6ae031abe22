"""One colour and one mark for each level of a factor, the same in every figure of a run.

Both follow from the level's place among all levels of the run's studies, never from what a figure happens to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.factors import axis_title, factor_label, level_axis_numbers, level_key, level_label
from ioassay.records.record import Scalar
from ioassay.report.figures import chart
from ioassay.report.figures.chart import channel
from ioassay.report.figures.spec import VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

# A diamond is the mark of a median.
_TRIANGLES = ("triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")
SHAPES = ("circle", "square", *_TRIANGLES, "diamond", "wedge")
_COLOURS = 9
"""Distinct ones of the theme."""
_ORDERED = 4
"""More levels than this, if they are numbers, have ordered colours."""


@dataclass(frozen=True)
class LevelMarks:
    """The channels over the field `group` of a figure that shows `shown`, some of the levels `every`, by label."""

    factor: str
    every: Sequence[str]
    shown: Sequence[str]
    ordered: bool
    """Colours of a scale, and one mark for all."""
    legend: VegaLite | None = None
    """The look of a legend smaller than usual."""

    def color(self, **symbol: Any) -> VegaLite:
        """The colour channel, to be passed on as keywords; `symbol` is the look of the legend's."""
        return {"color": channel(self._field, scale={"domain": list(self.every)}, **self._named(**symbol))}

    def points(self) -> VegaLite:
        """The channels of points: colour and shape, which share one legend."""
        return self.color() if self.ordered else {**self.color(), "shape": self.channel(SHAPES)}

    def channel(self, looks: Sequence[Any]) -> Any:
        """A channel that gives each level one of `looks`: a shape, or an area."""
        return channel(self._field, scale=self._looks(looks), **self._named())

    def dash(self, looks: Sequence[Sequence[int]]) -> Any:
        """The channel of a line's dashes, which would make the outlines of the legend's marks dashed.

        Vega-Lite merges the legends of one domain, the hidden ones too. So this one has its domain in another order.
        """
        turned = {name: ends[::-1] for name, ends in self._looks(looks).items()}
        return channel(self._field, scale=turned, legend=None)

    def offset(self) -> Any:
        """The channel that puts the levels side by side."""
        return channel("group:N", sort=list(self.shown))

    def _looks(self, looks: Sequence[Any]) -> dict[str, list[Any]]:
        """A scale that gives each level one of `looks`, again from the first where there are more levels."""
        return {"domain": list(self.every), "range": [looks[at % len(looks)] for at in range(len(self.every))]}

    @property
    def _field(self) -> str:
        return f"group:{'O' if self.ordered else 'N'}"

    def _named(self, **symbol: Any) -> VegaLite:
        look = self.legend or {"columns": chart.legend_columns(self.shown), "labelLimit": 560}
        title = (axis_title if self.legend is None else factor_label)(self.factor)
        return {"title": title, "legend": {"values": list(self.shown), **look, **symbol}}


def of(records: Dataset, study: Study, factor: str, levels: Iterable[Scalar | None]) -> LevelMarks:
    """The marks of a figure of `study` that shows these levels of the factor."""
    shown = [level_label(factor, level) for level in study.design.in_order(factor, levels)]
    known, own = _of_run(records, study, factor), study.levels.get(factor, ())
    known = own if len(known) > _COLOURS >= len(own) else known
    numbers = level_axis_numbers(factor, known) if known else None
    if numbers is not None:
        known = [level for _, level in sorted(zip(numbers, known, strict=True), key=lambda pair: pair[0])]
    every = list(dict.fromkeys([*(level_label(factor, level) for level in known), *shown]))
    ordered = len(every) > _COLOURS or (len(every) > _ORDERED and numbers is not None)
    return LevelMarks(factor, every, shown, ordered)


def _of_run(records: Dataset, study: Study, factor: str) -> Sequence[Scalar]:
    """The levels of all studies of the run that share some with this one, directly or through others, in its words."""
    studies = [*(study if one.name == study.name else one for one in records.studies), study]
    listed = [{level_key(factor, level): level for level in one.levels.get(factor, ())} for one in studies]
    own = listed[-1]
    reached = set(own)
    while joined := [levels for levels in listed if levels.keys() & reached and not levels.keys() <= reached]:
        reached.update(*joined)
    known: dict[str, Scalar] = {}
    for levels in listed:
        known |= {key: own.get(key, level) for key, level in levels.items() if key in reached and key not in known}
    return list(known.values())
