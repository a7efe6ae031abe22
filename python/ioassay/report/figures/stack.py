"""Where the processors' time went at each level of a factor: mpstat's states stacked, idle in grey up to 100 %.

Each trial counts as one, with the shares of its whole time; how these vary is not shown (`monitors` has one over time).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ioassay.analysis.measurements import sysstat
from ioassay.factors import factor_label
from ioassay.report.figures import axes, chart, selection
from ioassay.report.figures.chart import pl
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

BANDS = ("usr", "sys", "iowait", "irq", "soft", "steal", "nice", "guest")
"""States of mpstat from the bottom, `gnice` with the guests; idle is what is left."""
_SELDOM = ("nice", "guest")
"""Bands that are in the legend only where they occur."""
_SEEN = 0.05
"""The share in per cent from which on they do."""


class Spec(FigureSpec):
    """Keys of stacked processor time. `core`: 'all', or one as 'cpu0'."""

    x: str | None = None
    core: Annotated[str, Field(pattern=r"^(all|cpu\d+)$")] = "all"


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One bar a level."""
    trials = selection.select(records, study, spec.where)
    factor = selection.main_factor(study, spec.x, spec.where)
    selection.require_factor(study, factor)
    means, counts = level_means(records, study, trials, factor, spec.core)
    axis = axes.category_axis(factor, study.design.in_order(factor, list(counts)))
    whose = "CPU time of all cores" if spec.core == "all" else f"Time of {spec.core}"
    drawn = bars(means, axis, axis.encoding(spec.width), chart.percent(f"{whose} (%), grey: idle"))
    pooled = selection.pooled(selection.points_of(study, trials), factor)
    notes = ["means over trials", selection.repetitions_text(list(counts.values())), pooled]
    told: list[VegaLite] = []
    for level in axis.levels:
        shares = [(line, means[level].get(line, 0.0)) for line in (*BANDS, "idle")]
        text = ", ".join(f"{line} {share:.0f} %" for line, share in shares if share >= 0.5)
        told.append({"level": axis.position(level), "mean_text": text})
    return chart.layered(drawn, spec, study, f"{whose} by state against {factor_label(factor)}", notes, points=told)


def bars(
    means: Mapping[Any, Mapping[str, float]], axis: axes.LevelAxis, x: Any, y: Any, every: bool = False
) -> list[Any]:
    """One bar a level of `axis` from its `level_means`: idle behind, the states in front of it.

    The legend has `every` state, for charts that share it, or those that are usual or occur.
    """
    occur = [line for line in _SELDOM if every or any(shares.get(line, 0.0) >= _SEEN for shares in means.values())]
    legend = {"values": [line for line in BANDS if line not in _SELDOM or line in occur], "symbolType": "square"}
    # A state has one colour in every figure, whatever others there are.
    color = channel("line:N", title=None, scale={"domain": list(BANDS)}, legend=legend)
    rows = [row for level in axis.levels for row in _rows(axis.position(level), means[level])]
    tooltip = chart.tips({"x:N": "level", "line:N": "state", "share:N": ""})
    channels = {"x": x, "y": y, "y2": "y2:Q", "tooltip": tooltip}
    width = {"band": 0.72}
    busy = chart.base([row for row in rows if row["line"] != "idle"]).mark("bar", style="band", width=width)
    rest = chart.base([row for row in rows if row["line"] == "idle"]).mark("bar", style="frame", width=width)
    return [rest.encode(**channels), busy.encode(color=color, **channels)]


def level_means(
    records: Dataset, study: Study, trials: pl.DataFrame, factor: str, core: str = "all"
) -> tuple[dict[Any, dict[str, float]], dict[Any, int]]:
    """Level -> band -> mean share in per cent, and level -> number of trials."""
    found = sysstat.mpstat(records, study, core, whole=True)
    joined = found.join(trials.select("trial", level=factor), on="trial").drop_nulls("level")
    if joined.is_empty():
        raise NoData(f"nothing watched '{core}' in the study '{study.name}'; it needs watch.monitors = [\"cpu\"]")
    counts = dict(joined.group_by("level").agg(pl.col("trial").n_unique()).iter_rows())
    banded = joined.with_columns(line=pl.col("state").replace({"gnice": "guest"}))
    means: dict[Any, dict[str, float]] = {level: {} for level in counts}
    for level, line, percent in banded.group_by("level", "line").agg(pl.col("percent").sum()).iter_rows():
        means[level][line] = percent / counts[level]
    return means, counts


def _rows(place: float | str, shares: Mapping[str, float]) -> list[VegaLite]:
    """The bands of one bar, each from `y` to `y2`."""
    rows, low = [], 0.0
    for line in (*BANDS, "idle"):
        share = shares.get(line, 0.0)
        high = 100.0 if line == "idle" else min(low + share, 100.0)
        if high > low:
            text = f"{share:.1f} %"
            rows.append({"x": place, "line": line, "y": round(low, 4), "y2": round(high, 4), "share": text})
        low = high
    return rows
