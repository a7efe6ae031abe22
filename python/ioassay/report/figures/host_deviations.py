"""Which host is slow: each host's deviation with its interval, worst first, and the decision limits.

Colour and shape both say the standing. A host whose mark lies outside of the shaded limits deviates, and then its
interval does not cross the line of the mean: both are the same statement (`analysis/hosts/host_comparison.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.hosts import host_comparison
from ioassay.analysis.hosts.host_comparison import ResponseComparison, Standing
from ioassay.metrics import format_metric
from ioassay.narrative import hosts_text, phrases
from ioassay.report.figures import chart_marks, selection, titles
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.stats.condition_means import Scale
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_ROW_PX = 22
_COLOURS: tuple[str, ...] = (
    *(one.value for one in (Standing.FAST, Standing.SLOW, Standing.EQUAL)),
    *("3", "4", "5", "6", Standing.UNDECIDED.value),
)
"""A standing at the place of its colour in the theme's categories: blue, vermilion, green, and grey."""
_SHAPES = {
    Standing.SLOW.value: "triangle-down",
    Standing.FAST.value: "triangle-up",
    Standing.EQUAL.value: "circle",
    Standing.UNDECIDED.value: "square",
}


class Spec(FigureSpec):
    """Keys of a chart of hosts. Without `y` it is the response in which hosts deviate most."""

    y: str | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart; NoData where hosts are not compared."""
    import altair as alt

    found = _response(records, study, spec)
    rows = _rows(found)
    names = [row["host"] for row in rows]
    y = alt.Y("host:N", sort=names, title="host", scale=alt.Scale(paddingInner=0, paddingOuter=0))
    title = f"{selection.metric_label(found.response)} of each host"
    notes = _notes(found, study, named=bool(spec.title))
    layers = [*_ground(rows, y), *_marks(rows, y, _x(found, rows))]
    return alt.layer(*layers).properties(
        width=spec.width,
        height=_ROW_PX * len(rows),
        title=titles.head(spec, study, title, notes),
        description=f"{titles.text(spec, title)}. {'; '.join(_said(row) for row in rows)}.",
    )


def _response(records: Dataset, study: Study, spec: Spec) -> ResponseComparison:
    selection.select(records, study, {})  # says why where nothing went well
    if len(study.hosts) < 2:
        raise NoData(f"the study '{study.name}' names fewer than two hosts (run.hosts)")
    if spec.where:
        raise NoData("hosts are compared over all points of a study; wanted no key 'where'")
    comparison = host_comparison.comparison(records, study)
    if not comparison.compared:
        raise NoData(hosts_text.claims(comparison)[0].rstrip("."))
    if spec.y is None:
        return max(comparison.compared, key=lambda one: max(map(one.clarity, one.deviations)))
    for one in comparison.compared:
        if one.response == spec.y:
            return one
    known = ", ".join(one.response for one in comparison.compared)
    raise NoData(
        f"hosts are not compared in {spec.y}, which restates another or has no better direction; known: {known}"
    )


def _rows(found: ResponseComparison) -> list[VegaLite]:
    share = found.scale == Scale.LOG
    centre = 1.0 if share else 0.0

    def deviation(value: float) -> float:
        return float(f"{value - centre:.5g}")

    assert found.limits is not None
    rows = []
    for one in found.deviations:
        low, high = one.pair.interval.low, one.pair.interval.high
        limits = found.limits[one.host]
        rows.append(
            {
                "host": one.host,
                "deviation": deviation(one.pair.estimate),
                "low": deviation(low),
                "high": deviation(high),
                "from": deviation(limits[0]),
                "to": deviation(limits[1]),
                "standing": one.standing.value,
                "text": _text(found, one.pair.estimate - centre),
                "interval": f"{_text(found, low - centre)} to {_text(found, high - centre)}",
            }
        )
    return rows


def _text(found: ResponseComparison, deviation: float) -> str:
    """`+12 %`, or a value in the response's unit."""
    if found.scale == Scale.LOG:
        percent = round(100 * deviation, 1) + 0.0  # no -0.0
        return f"{percent:+.0f} %" if abs(percent) >= 10 else f"{percent:+.1f} %"
    return f"{'+' if deviation > 0 else ''}{format_metric(found.response, deviation)}"


def _x(found: ResponseComparison, rows: Sequence[VegaLite]) -> Any:
    import altair as alt

    share = found.scale == Scale.LOG
    reference = "the other host" if len(rows) == 2 else "the mean"
    better = "lower" if found.lower else "higher"
    return alt.X(
        "deviation:Q",
        title=f"deviation from {reference} ({better} is better)",
        axis=alt.Axis(format="+.2~%" if share else "~s", grid=True),
    )


def _ground(rows: Sequence[VegaLite], y: Any) -> list[Any]:
    """The decision limits of each host, and the line of the mean."""
    import altair as alt

    limits = alt.Chart(chart_marks.data(rows)).mark_rect(style="window")
    line = alt.Chart(chart_marks.data([{"deviation": 0}])).mark_rule(style="reference", strokeWidth=1.5)
    return [limits.encode(x="from:Q", x2="to:Q", y=y), line.encode(x="deviation:Q")]


def _marks(rows: Sequence[VegaLite], y: Any, x: Any) -> list[Any]:
    """Intervals and marks, and the deviation in words at the right."""
    import altair as alt

    present = {row["standing"] for row in rows}
    legend = alt.Legend(title=None, values=[one.value for one in Standing if one.value in present], orient="bottom")
    color = alt.Color("standing:N", title=None, scale=alt.Scale(domain=list(_COLOURS)), legend=legend)
    shapes = alt.Scale(domain=list(_COLOURS), range=[_SHAPES.get(name, "circle") for name in _COLOURS])
    shape = alt.Shape("standing:N", title=None, scale=shapes, legend=legend)
    shown = [alt.Tooltip(f"{name}:N", title=name) for name in ("host", "interval", "standing")]
    tooltip = [shown[0], alt.Tooltip("text:N", title="deviation"), *shown[1:]]
    rule = alt.Chart(chart_marks.data(rows)).mark_rule(strokeWidth=2, opacity=0.85)
    point = alt.Chart(chart_marks.data(rows)).mark_point(filled=True, size=85, opacity=1)
    words = alt.Chart(chart_marks.data(rows)).mark_text(style="value", align="left", dx=8)
    return [
        rule.encode(x=chart_marks.on(x, "low"), x2="high:Q", y=y, color=color),
        point.encode(x=x, y=y, color=color, shape=shape, tooltip=tooltip),
        words.encode(x=alt.value("width"), y=y, text="text:N"),
    ]


def _notes(found: ResponseComparison, study: Study, *, named: bool) -> list[str]:
    level = phrases.level(study.analysis.confidence)
    agree, every = len(found.reference), len(found.deviations)
    if every == 2:
        mean = "each against the other host"
    elif agree < every:
        mean = f"against the mean of the {agree} hosts that agree"
    else:
        mean = f"against the mean of all {every} hosts"
    return [
        f"{selection.metric_label(found.response)}, worst first" if named else "worst first",
        mean,
        f"{level} intervals that hold for all hosts and responses at once",
        "shaded: decision limits of the analysis of means",
        f"mean over {phrases.count(found.points, 'combination')} of the other factors" if found.points > 1 else "",
        f"left out, since they lack conditions: {phrases.listed(list(found.lacking))}" if found.lacking else "",
    ]


def _said(row: VegaLite) -> str:
    return f"{row['host']}: {row['text']} ({row['interval']}), {row['standing']}"
