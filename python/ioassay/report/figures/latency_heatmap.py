"""Latency over time: how many requests of each latency completed when, as colour, from histogram logs.

Single requests are visible next to millions, since colours are logarithmic. Averages over time are the kind `series`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.analysis.measurements import log_samples
from ioassay.errors import InputError
from ioassay.factors import level_label
from ioassay.report.figures import axes, chart, latency_levels, scales, selection
from ioassay.report.figures.spec import Direction, FigureSpec, NoData
from ioassay.report.figures.vega_lite import channel, concat
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_count, format_ns

if TYPE_CHECKING:
    from ioassay.records.record import LatencyWindow

_COLUMNS, _STEPS = 100, 48
"""At most: of time and of latency."""
_FINEST = 2 ** (1 / 16)
"""Ratio of neighbouring bins in the logs: finer steps would have gaps."""
_MOST_PANELS = 12
Counts = Counter[tuple[int, int]]
"""Requests by window (from 0) and step of latency."""


class Spec(FigureSpec):
    """Keys of a heat map of latencies. `width` and `height` are those of one panel."""

    direction: Direction = "read"
    panel: str | None = None
    repetition: Annotated[int, Field(ge=0)] | None = None
    columns: Annotated[int, Field(ge=1, le=8)] = 1
    height: Annotated[int, Field(ge=80, le=2000)] = 220


@dataclass(frozen=True)
class _Grid:
    """Windows of one length, and steps over the range of all latencies."""

    window_s: float
    low_ns: float
    ratio: float
    steps: int

    @classmethod
    def over(cls, logs: Sequence[Sequence[LatencyWindow]]) -> _Grid:
        """Windows of the logs' own length, joined where they are too many."""
        # Each trial's windows end a few milliseconds late, by its own; at the next job's log time goes back.
        steps_s = [after.end_s - before.end_s for log in logs for before, after in itertools.pairwise(log)]
        steps_s = sorted(step for step in steps_s if step > 0)
        last_s = max(window.end_s for log in logs for window in log)
        interval_s = (round(steps_s[len(steps_s) // 2], 2) if steps_s else 0.0) or last_s
        joined = max(math.ceil(last_s / interval_s / _COLUMNS), 1)
        values = [value for log in logs for window in log for value in window.values_ns]
        low, high = max(min(values), 1), max(*values, 2)
        steps = max(min(_STEPS, int(math.log(high / low) / math.log(_FINEST))), 1)
        return cls(interval_s * joined, low / 1.02, (high / low * 1.05) ** (1 / steps), steps)

    def edge(self, step: int) -> float:
        """Where a step begins."""
        return float(f"{self.low_ns * self.ratio**step:.5g}")

    def counts(self, members: Sequence[Sequence[LatencyWindow]]) -> Counts:
        """The requests of several trials together."""
        counts: Counts = Counter()
        for window in itertools.chain.from_iterable(members):
            # A window that ends at 107 ms is the one from 0 to 100.
            place = max(math.ceil(window.end_s / self.window_s - 0.3) - 1, 0)
            for value, count in zip(window.values_ns, window.counts, strict=True):
                step = int(math.log(max(value, 1) / self.low_ns) / math.log(self.ratio))
                counts[place, min(max(step, 0), self.steps - 1)] += count
        return counts


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One panel a level, with one scale of colours."""
    trials = selection.select(records, study, spec.where)
    if spec.repetition is not None:
        trials = trials.filter(trials["repetition"] == spec.repetition)
        if trials.is_empty():
            raise NoData(f"no trial that went well is repetition {spec.repetition}; the first is 0")
    points = selection.points_of(study, trials)
    varied = (name for name in study.levels if len({point.get(name) for point in points}) > 1)
    factor = spec.panel or next(varied, None)
    if factor:
        selection.require_factor(study, factor)
    logs = _logs(records, trials["trial"].to_list(), spec)
    levels = dict(trials.select("trial", factor).iter_rows()) if factor else dict.fromkeys(logs)
    shown = study.design.in_order(factor, [levels[trial] for trial in logs]) if factor else [None]
    if len(shown) > _MOST_PANELS:
        raise NoData(f"{len(shown)} levels of {factor} have histograms; choose up to {_MOST_PANELS} with `where`")
    members = {
        level_label(factor, level) if factor and level is not None else "": [
            own for trial, own in logs.items() if levels[trial] == level
        ]
        for level in shown
    }
    grid = _Grid.over(list(logs.values()))
    panels = {title: grid.counts(own) for title, own in members.items()}
    kept = sum(map(len, members.values()))
    notes = [
        f"requests of {grid.window_s:.3g} s in each cell (logarithmic colours)",
        f"{kept} trials together" if kept > len(panels) else "one trial" if kept == 1 else "one trial in each panel",
        selection.pooled(points, factor),
    ]
    drawn = concat(*_charts(panels, grid, spec), columns=spec.columns, spacing=16)
    title = f"{latency_levels.latency_name(spec.direction, 'clat')} over time"
    details = "; ".join(f"{name}: {_told(own, grid)}" if name else _told(own, grid) for name, own in panels.items())
    return chart.figure(
        drawn, spec, study, title, notes, width=min(spec.columns, len(panels)) * spec.width, details=details
    )


def _logs(records: Dataset, trials: Sequence[str], spec: Spec) -> Mapping[str, Sequence[LatencyWindow]]:
    """The windows of each trial; NoData where none kept a histogram log."""
    try:
        found = log_samples.latency_windows(records, trials, spec.direction)
    except InputError as error:
        raise NoData(str(error)) from None
    if not found:
        why = f"no trial kept histograms of {spec.direction} latencies over time"
        raise NoData(f'{why}; the parameter logs asks fio for them: logs = ["hist"]')
    return found


def _charts(panels: Mapping[str, Counts], grid: _Grid, spec: Spec) -> list[Any]:
    most = max(max(counts.values()) for counts in panels.values())
    end_s = (max(window for counts in panels.values() for window, _ in counts) + 1) * grid.window_s
    ticks = [tick for tick in scales.log_ticks(1, max(most, 10)) if math.log10(tick).is_integer()]
    name = latency_levels.latency_name(spec.direction, "clat")
    channels = {
        "x": chart.seconds(end_s=end_s),
        "x2": "end:Q",
        "y": axes.latency_axis("y", name, grid.edge(0), grid.edge(grid.steps)),
        "y2": "top:Q",
        "color": chart.heat("requests", "Requests", "log", [1, max(most, 2)], values=ticks, format="~s"),
        "tooltip": [
            channel("x:Q", title="from (s)"),
            channel("y:Q", title="latency from (ns)", format="~s"),
            channel("requests:Q", format=","),
        ],
    }
    # Thousands of cells: what follows from a place is computed by the chart.
    ends = {"end": f"datum.x + {grid.window_s:.6g}", "top": f"datum.y * {grid.ratio:.9g}"}
    computed = [{"calculate": expression, "as": name} for name, expression in ends.items()]
    charts = []
    for title, counts in panels.items():
        rows = [
            {"x": round(window * grid.window_s, 4), "y": grid.edge(step), "requests": count}
            for (window, step), count in sorted(counts.items())
        ]
        cells = chart.base(rows).mark("rect", style="band", clip=True).encode(**channels)
        charts.append(chart.panel([{**cells, "transform": computed}], spec.width, spec.height, title))
    return charts


def _told(counts: Counts, grid: _Grid) -> str:
    """The requests of a panel and when its slowest completed."""
    window, step = max(counts, key=lambda place: (place[1], -place[0]))
    requests = format_count(sum(counts.values()))
    return f"{requests} requests, the slowest over {format_ns(grid.edge(step))} at {window * grid.window_s:.3g} s"
