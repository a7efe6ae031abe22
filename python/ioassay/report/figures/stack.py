"""Where the processors' time went at each level of a factor: mpstat's states stacked, idle in grey up to 100 %.

Each trial counts as one, with the shares of its whole time; how these vary is not shown (`monitors` has one over time).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ioassay.factors import factor_label
from ioassay.report.figures import axes, chart_marks, selection, titles
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

_BANDS = {
    "usr": "usr",
    "sys": "sys",
    "iowait": "iowait",
    "irq": "irq",
    "soft": "soft",
    "steal": "steal",
    "nice": "nice",
    "gnice": "guest",
    "guest": "guest",
}
"""mpstat's state -> band, from the bottom; idle is what is left."""
BANDS = tuple(dict.fromkeys(_BANDS.values()))
_SELDOM = ("nice", "guest")
"""Bands that are in the legend only where they occur."""


class Spec(FigureSpec):
    """Keys of stacked processor time. `core`: 'all', or one as 'cpu0'."""

    x: str | None = None
    core: Annotated[str, Field(pattern=r"^(all|cpu\d+)$")] = "all"


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One bar a level."""
    import altair as alt

    trials = selection.select(records, study, spec.where)
    factor = selection.main_factor(study, spec.x, spec.where)
    selection.require_factor(study, factor)
    means, counts = level_means(records, study, trials, factor, spec.core)
    levels = study.design.in_order(factor, list(counts))
    axis = axes.category_axis(factor, levels)
    y = alt.Y("y:Q", title=f"{_whose(spec.core)} (%), grey: idle", scale=alt.Scale(domain=[0, 100], nice=False))
    title = f"{_whose(spec.core)} by state against {factor_label(factor)}"
    points = selection.points_of(study, trials)
    notes = ["means over trials", selection.repetitions_text(list(counts.values())), selection.pooled(points, factor)]
    told = [{"level": axis.position(level), "mean_text": _told(means[level])} for level in levels]
    return alt.layer(*bars(means, axis, axis.encoding(spec.width), y)).properties(
        width=spec.width,
        height=spec.height,
        title=titles.head(spec, study, title, notes),
        description=titles.description(spec, study, title, told),
    )


def bars(
    means: Mapping[Any, Mapping[str, float]], axis: axes.LevelAxis, x: Any, y: Any, every: bool = False
) -> list[Any]:
    """One bar a level of `axis` from its `level_means`: idle behind, the states in front of it.

    The legend has `every` state, for charts that share it, or those that are usual or occur.
    """
    import altair as alt

    rows = [row for level in axis.levels for row in _rows(axis.position(level), means[level])]
    tooltip = [alt.Tooltip("x:N", title="level"), alt.Tooltip("line:N", title="state"), alt.Tooltip("share:N")]
    width = alt.RelativeBandSize(0.72)
    busy = alt.Chart(chart_marks.data([row for row in rows if row["line"] != "idle"])).mark_bar(
        style="band", width=width
    )
    rest = alt.Chart(chart_marks.data([row for row in rows if row["line"] == "idle"])).mark_bar(
        style="frame", width=width
    )
    color = _color(BANDS if every else [row["line"] for row in rows if row["shown"]])
    return [
        rest.encode(x=x, y=y, y2="y2:Q", tooltip=tooltip),
        busy.encode(x=x, y=y, y2="y2:Q", color=color, tooltip=tooltip),
    ]


def level_means(
    records: Dataset, study: Study, trials: pl.DataFrame, factor: str, core: str = "all"
) -> tuple[dict[Any, dict[str, float]], dict[Any, int]]:
    """Level -> band -> mean share in per cent, and level -> number of trials."""
    import polars as pl

    from ioassay.analysis.measurements import sysstat

    found = sysstat.mpstat(records, study, core, whole=True)
    joined = found.join(trials.select("trial", factor), on="trial").drop_nulls(factor)
    if joined.is_empty():
        raise NoData(f"nothing watched '{core}' in the study '{study.name}'; it needs watch.monitors = [\"cpu\"]")
    banded = joined.with_columns(line=pl.col("state").replace(_BANDS))
    each = banded.group_by("trial", factor, "line").agg(pl.col("percent").sum())
    counts = dict(each.group_by(factor).agg(pl.col("trial").n_unique()).iter_rows())
    totals = each.group_by(factor, "line").agg(pl.col("percent").sum())
    means: dict[Any, dict[str, float]] = {level: {} for level in counts}
    for level, line, percent in totals.iter_rows():
        means[level][line] = percent / counts[level]
    return means, counts


def _rows(place: float | str, shares: Mapping[str, float]) -> list[VegaLite]:
    """The bands of one bar, each from `y` to `y2`; those too thin to see are not `shown` in the legend."""
    rows, low = [], 0.0
    for line in (*BANDS, "idle"):
        share = shares.get(line, 0.0)
        high = 100.0 if line == "idle" else min(low + share, 100.0)
        shown = line not in (*_SELDOM, "idle") or (line in _SELDOM and share >= 0.05)
        if high > low or shown:
            text = f"{share:.1f} %"
            rows.append(
                {"x": place, "line": line, "y": round(low, 4), "y2": round(high, 4), "share": text, "shown": shown}
            )
        low = high
    return rows


def _color(shown: Sequence[str]) -> Any:
    """A state has one colour in every figure, whatever others there are."""
    import altair as alt

    legend = alt.Legend(values=[line for line in BANDS if line in set(shown)], symbolType="square")
    return alt.Color("line:N", title=None, scale=alt.Scale(domain=list(BANDS)), legend=legend)


def _whose(core: str) -> str:
    return "CPU time of all cores" if core == "all" else f"Time of {core}"


def _told(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{line} {shares[line]:.0f} %" for line in (*BANDS, "idle") if shares.get(line, 0.0) >= 0.5)
