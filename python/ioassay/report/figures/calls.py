"""Which system calls a load made: calls a second by name, one panel of bars a level of a factor, or one stack a level.

The most frequent have names, the rest is 'other'. Counts are those of the trials that counted (`watch.calls`),
or of all where each was watched at level syscalls; how long the calls took is not here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import axis_title, factor_label, level_label, level_phrase, same_level
from ioassay.records.record import Scalar
from ioassay.report.figures import chart, chart_marks, scales, selection
from ioassay.report.figures.chart import alt, pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_WIDE = 50.0
"""Ratio of the highest to the lowest bar from which on they are read on a logarithmic axis only."""
_BAR_PX = 17
_GAP_PX = 14
_NUMBER_PX = 46
"""What a number behind a bar takes."""
_MOST_COLORS = 8
_MOST_LEVELS = 8
OTHER = "other"
_COUNTERS = {"bpf": "counted by BPF", "strace": "counted by strace, which slows the load down"}
_TOOLTIP = {"name:N": "call", "text:N": "a second", "failed:N": "of these failed", "level:N": "level"}


class Spec(FigureSpec):
    """Keys of bars of system calls. `width` is that of all panels together; their height follows from `top`."""

    x: str | None = None
    top: Annotated[int, Field(ge=1, le=40)] = 10
    log: bool | None = None
    stacked: bool = False
    columns: Annotated[int, Field(ge=1, le=8)] = 4


@dataclass(frozen=True)
class _Level:
    """What was called at one level: name -> calls a second (mean over trials), and the share of these that failed."""

    label: str
    per_second: Mapping[str, float]
    failed: Mapping[str, float]
    trials: int

    @property
    def total(self) -> float:
        return sum(self.per_second.values())

    def rows(self, unit: scales.Unit) -> list[VegaLite]:
        """One row a call, with its rate in `unit`."""
        failed = {name: f"{100 * share:.2g} %" for name, share in self.failed.items()}
        return [
            {"name": name, "x": unit.scale(value), "text": _number(value)}
            | {"level": self.label or "all", "failed": failed.get(name, "–")}
            for name, value in self.per_second.items()
        ]


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The panels or the stacks."""
    found = _counted(records, study, spec)
    factor = _factor(study, found, spec)
    every = _levels(study, found, factor)
    levels = every
    if len(every) > _MOST_LEVELS:  # evenly among all, first and last with them
        levels = [every[round(place * (len(every) - 1) / (_MOST_LEVELS - 1))] for place in range(_MOST_LEVELS)]
    names = _most(levels, min(spec.top, _MOST_COLORS - 1) if spec.stacked else spec.top)
    kept = [_with_other(one, names) for one in levels]
    unit = scales.best_unit("IOPS", [one.total if spec.stacked else max(one.per_second.values()) for one in kept])
    shown = {name for one in kept for name in one.per_second}
    order = [name for name in (*names, OTHER) if name in shown]
    values = [value for one in kept for value in one.per_second.values() if value > 0]
    log = not spec.stacked and (spec.log if spec.log is not None else max(values) > _WIDE * min(values))
    if spec.stacked:
        drawn = _stacks(kept, order, unit, factor).properties(width=spec.width, height=spec.height)
    else:
        drawn = _panels(kept, order, None if log else unit, spec, factor)
    points = found.select([name for name in study.levels if name in found.columns]).unique().to_dicts()
    notes = [
        selection.repetitions_text([one.trials for one in kept]),
        *(_COUNTERS.get(by, by) for by in found["by"].unique().sort().to_list()),
        "logarithmic axis" if log else "",
        f"{len(levels)} of {len(every)} levels" if len(levels) < len(every) else "",
        selection.pooled(points, factor),
    ]
    told = [
        {
            "level": one.label or "all",
            "mean_text": ", ".join(f"{name} {_number(value)}" for name, value in one.per_second.items()),
        }
        for one in kept
    ]
    title = "System calls a second by name" + (f" over {factor_label(factor)}" if factor else "")
    return chart.figure(drawn, spec, study, title, notes, told)


def _counted(records: Dataset, study: Study, spec: Spec) -> pl.DataFrame:
    """The study's rows that `where` keeps; NoData with the reason where there are none."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    found = records.calls.filter(pl.col("study") == study.name)
    for factor, level in spec.where.items():
        if factor in found.columns:
            found = _at(found, factor, level)
    if not found.is_empty():
        return found
    if (counting := records.counting) is not None:
        reasons = counting.filter((counting["study"] == study.name) & (counting["reason"] != ""))["reason"].to_list()
        if reasons:
            raise NoData(f"no system calls were counted: {reasons[0]}")
    raise NoData(f"no trial of the study '{study.name}' counted system calls; it needs watch.calls = true")


def _at(found: pl.DataFrame, factor: str, level: Scalar) -> pl.DataFrame:
    """The rows of one level."""
    return found.filter(pl.Series([same_level(factor, level, other) for other in found[factor]], dtype=pl.Boolean))


def _factor(study: Study, found: pl.DataFrame, spec: Spec) -> str | None:
    """The factor of the panels: the one asked for, or the first whose levels differ; None where there is none."""
    if spec.x is not None:
        selection.require_factor(study, spec.x)
        if spec.x not in found.columns:
            raise NoData(f"the counts have no column of the factor '{spec.x}'")
        return spec.x
    free = [name for name in study.levels if name in found.columns and name not in spec.where]
    return next((name for name in free if found[name].n_unique() > 1), None)


def _levels(study: Study, found: pl.DataFrame, factor: str | None) -> list[_Level]:
    if factor is None:
        return [_level("", found)]
    known = study.design.in_order(factor, found[factor].unique().to_list())
    parts = {level: _at(found, factor, level) for level in known}
    return [_level(level_label(factor, level), part) for level, part in parts.items() if part.height]


def _level(label: str, part: pl.DataFrame) -> _Level:
    """A trial that made no such call counts as none."""
    trials = part["trial"].n_unique()
    sums = part.group_by("name").agg(pl.col("per_second").sum(), pl.col("count").sum(), pl.col("errors").sum())
    rows = sums.sort(["per_second", "name"], descending=[True, False]).to_dicts()
    per_second = {row["name"]: row["per_second"] / trials for row in rows}
    return _Level(label, per_second, {row["name"]: row["errors"] / max(row["count"], 1) for row in rows}, trials)


def _most(levels: Sequence[_Level], number: int) -> list[str]:
    """The names that occur most in all levels together, most frequent first."""
    totals: Counter[str] = Counter()
    for one in levels:
        totals.update(one.per_second)
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    # One that is left over says more by its name.
    return ranked if len(ranked) == number + 1 else ranked[:number]


def _with_other(level: _Level, names: Sequence[str]) -> _Level:
    """The named calls in their order, and the sum of all others."""
    kept = {name: level.per_second[name] for name in names if name in level.per_second}
    if others := [value for name, value in level.per_second.items() if name not in kept]:
        kept[OTHER] = sum(others)
    return replace(level, per_second=kept)


def _panels(
    levels: Sequence[_Level], order: Sequence[str], unit: scales.Unit | None, spec: Spec, factor: str | None
) -> Any:
    """Bars from left to right in one unit, or points on a logarithmic axis (None); one scale for all panels."""
    # Rows as even as they can be: 3 and 2 rather than 4 and 1.
    columns = math.ceil(len(levels) / math.ceil(len(levels) / spec.columns))
    width = max(int((spec.width - _GAP_PX * (columns - 1)) / columns), 110)
    x = _axis([value for one in levels for value in one.per_second.values() if value > 0], unit, width)
    panels = []
    for place, one in enumerate(levels):
        first = alt.Axis(labels=place % columns == 0, grid=unit is None)
        y = alt.Y("name:N", title=None, sort=order, scale=alt.Scale(domain=order), axis=first)
        base = chart.base(one.rows(unit or scales.Unit(1.0, ""))).encode(x=x, y=y, tooltip=chart.tips(_TOOLTIP))
        bars = base.mark_bar(style="bar", height=alt.RelativeBandSize(0.72))
        marks = bars if unit else base.mark_point(style="mean", filled=True, size=60)
        text = base.mark_text(style="value", align="left", dx=4 if unit else 8).encode(text="text:N")
        panel = chart.panel([marks, text], width, _BAR_PX * len(order))
        if factor:
            head = {"text": level_phrase(factor, one.label), "subtitle": f"{_number(one.total)} in all"}
            panel = panel.properties(title={**head, "fontSize": 13, "offset": 6})
        panels.append(panel)
    return alt.concat(*panels, columns=columns, spacing=_GAP_PX)


def _axis(values: Sequence[float], unit: scales.Unit | None, width: int) -> Any:
    """The x channel of all panels, with room for a number behind the longest bar."""
    low, high = min(values), max(values)
    if unit:
        scale = alt.Scale(domain=[0, unit.scale(high) * (1 + _NUMBER_PX / width)], nice=False)
        axis = alt.Axis(tickCount=max(width // 70, 2))
        return alt.X("x:Q", title=unit.titled("Calls a second"), scale=scale, axis=axis)
    floor = 10.0 ** math.floor(math.log10(low) - 0.01)
    top = high * (high / floor) ** (_NUMBER_PX / width)
    ticks = [10.0**power for power in range(round(math.log10(floor)), math.ceil(math.log10(top)) + 1)]
    kept = ticks[:: math.ceil(len(ticks) / max(width // 45, 2))]
    axis = alt.Axis(values=kept, labelExpr=scales.labels_at({tick: _number(tick) for tick in kept}), labelFlush=False)
    return alt.X("x:Q", title="Calls a second", scale=alt.Scale(type="log", domain=[floor, top], nice=False), axis=axis)


def _stacks(levels: Sequence[_Level], order: Sequence[str], unit: scales.Unit, factor: str | None) -> Any:
    """One bar a level from zero, divided by name."""
    rows = [{**row, "rank": order.index(row["name"])} for one in levels for row in one.rows(unit)]
    legend = alt.Legend(columns=chart_marks.legend_columns(order), labelLimit=560)
    labels = [one.label or "all" for one in levels]
    title = axis_title(factor) if factor else None
    bars = chart.base(rows).mark_bar(style="band", width=alt.RelativeBandSize(0.72))
    return bars.encode(
        x=alt.X("level:N", title=title, sort=labels, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("x:Q", title=unit.titled("Calls a second"), stack="zero", axis=alt.Axis(tickCount=6)),
        color=alt.Color("name:N", title=None, sort=order, scale=alt.Scale(domain=order), legend=legend),
        order=alt.Order("rank:Q"),
        tooltip=chart.tips(_TOOLTIP),
    )


def _number(value: float) -> str:
    """A rate with three digits: `1.23 M`, `45.6 k`, `12`, `0.5`."""
    for divisor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= divisor:
            return f"{value / divisor:.3g}{suffix}"
    return f"{value:.3g}"
