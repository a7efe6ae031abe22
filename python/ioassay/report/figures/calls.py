"""Which system calls a load made: calls a second by name, one panel of bars a level of a factor, or one stack a level.

The most frequent have names, the rest is 'other'. Counts are those of the trials that counted (`watch.calls`),
or of all where each was watched at level syscalls; how long the calls took is not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ioassay.factors import axis_title, factor_label, level_label, level_phrase
from ioassay.report.figures import axes, chart, selection
from ioassay.report.figures.chart import channel, concat, pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_WIDE = 50.0
"""Ratio of the highest to the lowest bar from which on they are read on a logarithmic axis only."""
_BAR_PX = 18
_GAP_PX = 14
_NUMBER_PX = 54
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


_Levels = Mapping[str, Sequence[VegaLite]]
"""Label of a level -> a row a call, in their order; `x` is its rate, the mean over trials."""


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The panels or the stacks."""
    found = _counted(records, study, spec)
    factor = _factor(study, found, spec)
    if factor is None:
        labelled, every = found.with_columns(level=pl.lit("")), [""]
    else:
        labelled = found.drop_nulls(factor)
        levels_of_rows = labelled[factor].to_list()
        labels = pl.Series("level", [level_label(factor, one) for one in levels_of_rows], dtype=pl.String)
        every = [level_label(factor, one) for one in study.design.in_order(factor, levels_of_rows)]
        labelled, every = labelled.with_columns(labels), list(dict.fromkeys(every))
    shown = every
    if len(every) > _MOST_LEVELS:  # evenly among all, first and last with them
        shown = [every[round(place * (len(every) - 1) / (_MOST_LEVELS - 1))] for place in range(_MOST_LEVELS)]
    labelled = labelled.filter(pl.col("level").is_in(shown))
    order, levels = _rates(labelled, shown, min(spec.top, _MOST_COLORS - 1) if spec.stacked else spec.top)
    rates = [[row["x"] for row in rows] for rows in levels.values()]
    unit = axes.best_unit("IOPS", [sum(own) if spec.stacked else max(own) for own in rates])
    values = [value for own in rates for value in own if value > 0]
    log = not spec.stacked and (spec.log if spec.log is not None else max(values) > _WIDE * min(values))
    if spec.stacked:
        drawn = _stacks(levels, order, unit, factor) | {"width": spec.width, "height": spec.height}
    else:
        drawn = _panels(levels, order, None if log else unit, spec, factor)
    trials = labelled.group_by("level").agg(pl.col("trial").n_unique())["trial"].to_list()
    points = found.select([name for name in study.levels if name in found.columns]).unique().to_dicts()
    notes = [
        selection.repetitions_text(trials),
        *(_COUNTERS.get(by, by) for by in found["by"].unique().sort().to_list()),
        "logarithmic axis" if log else "",
        f"{len(shown)} of {len(every)} levels" if len(shown) < len(every) else "",
        selection.pooled(points, factor),
    ]
    texts = {label: ", ".join(f"{row['name']} {row['text']}" for row in rows) for label, rows in levels.items()}
    told = [{"level": label or "all", "mean_text": text} for label, text in texts.items()]
    title = "System calls a second by name" + (f" over {factor_label(factor)}" if factor else "")
    return chart.figure(drawn, spec, study, title, notes, told)


def _counted(records: Dataset, study: Study, spec: Spec) -> pl.DataFrame:
    """The study's rows that `where` keeps; NoData with the reason where there are none."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    known = {factor: level for factor, level in spec.where.items() if factor in records.calls.columns}
    found = selection.matching(records.calls.filter(pl.col("study") == study.name), known)
    if not found.is_empty():
        return found
    if (counting := records.counting) is not None:
        reasons = counting.filter((counting["study"] == study.name) & (counting["reason"] != ""))["reason"].to_list()
        if reasons:
            raise NoData(f"no system calls were counted: {reasons[0]}")
    raise NoData(f"no trial of the study '{study.name}' counted system calls; it needs watch.calls = true")


def _factor(study: Study, found: pl.DataFrame, spec: Spec) -> str | None:
    """The factor of the panels: the one asked for, or the first whose levels differ; None where there is none."""
    if spec.x is not None:
        selection.require_factor(study, spec.x)
        if spec.x not in found.columns:
            raise NoData(f"the counts have no column of the factor '{spec.x}'")
        return spec.x
    free = [name for name in study.levels if name in found.columns and name not in spec.where]
    return next((name for name in free if found[name].n_unique() > 1), None)


def _rates(labelled: pl.DataFrame, labels: Sequence[str], number: int) -> tuple[list[str], _Levels]:
    """The names that occur most in all levels together, and each level's calls, others under one name at the end.

    A trial that made no such call counts as none.
    """
    trials = dict(labelled.group_by("level").agg(pl.col("trial").n_unique()).iter_rows())
    sums = labelled.group_by("level", "name").agg(pl.col("per_second", "count", "errors").sum())
    rates: dict[str, dict[str, tuple[float, float]]] = {label: {} for label in labels}
    total: dict[str, float] = {}
    for level, name, a_second, count, errors in sums.iter_rows():
        rates[level][name] = a_second / trials[level], errors / max(count, 1)
        total[name] = total.get(name, 0.0) + a_second / trials[level]
    ranked = sorted(total, key=lambda name: (-total[name], name))
    # One that is left over says more by its name.
    order = ranked if len(ranked) <= number + 1 else [*ranked[:number], OTHER]
    levels: dict[str, list[VegaLite]] = {label: [] for label in labels}
    for label, own in rates.items():
        known = [(name, own[name][0], f"{100 * own[name][1]:.2g} %") for name in order if name in own]
        if others := [rate for name, (rate, _) in own.items() if name not in order]:
            known.append((OTHER, sum(others), "–"))
        for name, rate, failed in known:
            texts = {"text": _number(rate), "level": label or "all", "failed": failed}
            levels[label].append({"name": name, "x": float(f"{rate:.7g}"), **texts})
    return order, levels


def _panels(levels: _Levels, order: Sequence[str], unit: axes.Unit | None, spec: Spec, factor: str | None) -> Any:
    """Bars from left to right in one unit, or points on a logarithmic axis (None); one scale for all panels."""
    # Rows as even as they can be: 3 and 2 rather than 4 and 1.
    columns = math.ceil(len(levels) / math.ceil(len(levels) / spec.columns))
    width = max(int((spec.width - _GAP_PX * (columns - 1)) / columns), 110)
    x = _axis([row["x"] for rows in levels.values() for row in rows if row["x"] > 0], unit, width)
    panels = []
    for place, (label, rows) in enumerate(levels.items()):
        first = {"labels": place % columns == 0, "grid": unit is None}
        y = channel("name:N", title=None, sort=order, scale={"domain": order}, axis=first)
        # No mark beyond a logarithmic axis.
        own = [{**row, "x": unit.scale(row["x"])} if unit else row for row in rows if unit or row["x"] > 0]
        base = chart.base(own).encode(x=x, y=y, tooltip=chart.tips(_TOOLTIP))
        bars = base.mark("bar", style="bar", height={"band": 0.72})
        marks = bars if unit else base.mark("point", style="mean", filled=True, size=60)
        text = base.mark("text", style="value", align="left", dx=4 if unit else 8).encode(text="text:N")
        panel = chart.panel([marks, text], width, _BAR_PX * len(order))
        if factor:
            total = f"{_number(sum(row['x'] for row in rows))} in all"
            head = {"text": level_phrase(factor, label), "subtitle": total, "fontSize": 13, "offset": 6}
            panel["title"] = head
        panels.append(panel)
    return concat(*panels, columns=columns, spacing=_GAP_PX)


def _axis(values: Sequence[float], unit: axes.Unit | None, width: int) -> Any:
    """The x channel of all panels, with room for a number behind the longest bar."""
    low, high = min(values), max(values)
    if unit:
        scale = {"domain": [0, unit.scale(high) * (1 + _NUMBER_PX / width)], "nice": False}
        return channel("x:Q", title=unit.titled("Calls a second"), scale=scale, axis={"tickCount": max(width // 70, 2)})
    floor = 10.0 ** math.floor(math.log10(low) - 0.01)
    top = high * (high / floor) ** (_NUMBER_PX / width)
    ticks = [10.0**power for power in range(round(math.log10(floor)), math.ceil(math.log10(top)) + 1)]
    kept = ticks[:: math.ceil(len(ticks) / max(width // 45, 2))]
    axis = {"values": kept, "labelExpr": axes.labels_at({tick: _number(tick) for tick in kept}), "labelFlush": False}
    scale = {"type": "log", "domain": [floor, top], "nice": False}
    return channel("x:Q", title="Calls a second", scale=scale, axis=axis)


def _stacks(levels: _Levels, order: Sequence[str], unit: axes.Unit, factor: str | None) -> Any:
    rows = [
        {**row, "x": unit.scale(row["x"]), "rank": order.index(row["name"])} for own in levels.values() for row in own
    ]
    legend = {"columns": chart.legend_columns(order), "labelLimit": 560}
    labels = [label or "all" for label in levels]
    title = axis_title(factor) if factor else None
    bars = chart.base(rows).mark("bar", style="band", width={"band": 0.72})
    return bars.encode(
        x=channel("level:N", title=title, sort=labels, axis={"labelAngle": 0}),
        y=channel("x:Q", title=unit.titled("Calls a second"), stack="zero", axis={"tickCount": 6}),
        color=channel("name:N", title=None, sort=order, scale={"domain": order}, legend=legend),
        order=channel("rank:Q"),
        tooltip=chart.tips(_TOOLTIP),
    )


def _number(value: float) -> str:
    """A rate with three digits: `1.23 M`, `45.6 k`, `12`, `0.5`."""
    for divisor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= divisor:
            return f"{value / divisor:.3g}{suffix}"
    return f"{value:.3g}"
