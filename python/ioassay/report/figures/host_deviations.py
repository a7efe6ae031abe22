"""Which host is slow: each host's deviation with its interval, worst first, and the decision limits.

Colour and shape both say the standing. A host whose mark lies outside of the shaded limits deviates, and then its
interval does not cross the line of the mean: both are the same statement (`analysis/hosts/host_comparison.py`).
Where the machine was unfit to measure there are neither standings nor limits.
"""

from __future__ import annotations

from typing import Any

from ioassay.analysis.hosts import host_comparison
from ioassay.analysis.hosts.host_comparison import ResponseComparison
from ioassay.metrics import format_metric
from ioassay.narrative import hosts_text, phrases
from ioassay.report.figures import chart, selection
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel, layer
from ioassay.stats.condition_means import Scale
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_ROW_PX = 22
_SHAPES = {"slow": "triangle-down", "fast": "triangle-up", "equal": "circle", "undecided": "square"}
_COLOURS = ("fast", "slow", "equal", "3", "4", "5", "6", "undecided")
"""A standing at the place of its colour in the theme's categories: blue, vermilion, green, and grey."""


class Spec(FigureSpec):
    """Keys of a chart of hosts. Without `y` it is the response in which hosts deviate most."""

    y: str | None = None


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart; NoData where hosts are not compared."""
    found = _response(records, study, spec)
    conclusive = selection.is_conclusive(records, study)
    rows = _rows(found)
    share, better = found.scale == Scale.LOG, "lower" if found.lower else "higher"
    x = channel(
        "deviation:Q",
        title=f"deviation from {'the other host' if len(rows) == 2 else 'the mean'} ({better} is better)",
        axis={"format": "+.2~%" if share else "~s", "grid": True},
    )
    names = [row["host"] for row in rows]
    y = channel("host:N", sort=names, title="host", scale={"paddingInner": 0, "paddingOuter": 0})
    mean = chart.base([{"deviation": 0}]).mark("rule", style="reference", strokeWidth=1.5).encode(x="deviation:Q")
    base = chart.base(rows).encode(y=y)
    tooltip = {"host:N": "host", "text:N": "deviation", "interval:N": "interval"}
    limits, color, shape = [], {}, {}
    if conclusive:
        present = {row["standing"] for row in rows}
        legend = {"title": None, "values": [one for one in _SHAPES if one in present], "orient": "bottom"}
        shapes = {"domain": list(_COLOURS), "range": [_SHAPES.get(name, "circle") for name in _COLOURS]}
        colours = {"domain": list(_COLOURS)}
        color["color"] = channel("standing:N", title=None, scale=colours, legend=legend)
        shape["shape"] = channel("standing:N", title=None, scale=shapes, legend=legend)
        tooltip["standing:N"] = "standing"
        limits = [base.mark("rect", style="window").encode(x="from:Q", x2="to:Q")]
    rule = base.mark("rule", strokeWidth=2, opacity=0.85).encode(x=chart.on(x, "low"), x2="high:Q", **color)
    point = base.mark("point", filled=True, size=85, opacity=1)
    point = point.encode(x=x, tooltip=chart.tips(tooltip), **color, **shape)
    words = base.mark("text", style="value", align="left", dx=8).encode(x={"value": "width"}, text="text:N")
    whole = layer(*limits, mean, rule, point, words, width=spec.width, height=_ROW_PX * len(rows))
    title = f"{selection.metric_label(found.response)} of each host"
    standing = ", {standing}" if conclusive else ""
    details = "; ".join(f"{{host}}: {{text}} ({{interval}}){standing}".format(**row) for row in rows)
    notes = _notes(found, study, conclusive, bool(spec.title))
    return chart.figure(whole, spec, study, title, notes, details=details)


def _response(records: Dataset, study: Study, spec: Spec) -> ResponseComparison:
    selection.select(records, study, {})  # says why where nothing went well
    if len(study.hosts) < 2:
        raise NoData(f"the study '{study.name}' names fewer than two hosts (run.hosts)")
    if spec.where:
        raise NoData("hosts are compared over all points of a study; wanted no key 'where'")
    comparison = host_comparison.comparison(records, study)
    compared = {one.response: one for one in comparison.compared}
    if not compared:
        raise NoData(str(hosts_text.claims(comparison)[0]).rstrip("."))
    if spec.y is None:
        return max(compared.values(), key=lambda one: max(own.clarity for own in one.hosts))
    if spec.y in compared:
        return compared[spec.y]
    why = f"hosts are not compared in {spec.y}, which restates another or has no better direction"
    raise NoData(f"{why}; known: {', '.join(compared)}")


def _rows(found: ResponseComparison) -> list[VegaLite]:
    centre = 1.0 if found.scale == Scale.LOG else 0.0
    rows = []
    for one in found.hosts:
        ends = {"low": one.interval.low, "high": one.interval.high, "from": one.limits[0], "to": one.limits[1]}
        places = {"deviation": one.estimate, **ends}
        row: VegaLite = {name: float(f"{value - centre:.5g}") for name, value in places.items()}
        text, low, high = (_text(found, row[name]) for name in ("deviation", "low", "high"))
        rows.append({**row, "host": one.host, "standing": one.standing, "text": text, "interval": f"{low} to {high}"})
    return rows


def _text(found: ResponseComparison, deviation: float) -> str:
    """`+12 %`, or a value in the response's unit."""
    if found.scale == Scale.LOG:
        return f"{phrases.points(deviation, sign=True)} %"
    return f"{'+' if deviation > 0 else ''}{format_metric(found.response, deviation)}"


def _notes(found: ResponseComparison, study: Study, conclusive: bool, named: bool) -> list[str]:
    agree, every = len(found.reference), len(found.hosts)
    if every == 2:
        mean = "each against the other host"
    elif agree < every:
        those = f"the {agree} hosts that agree" if conclusive else f"{agree} of {every} hosts"
        mean = f"against the mean of {those}"
    else:
        mean = f"against the mean of all {every} hosts"
    level = phrases.level(study.analysis.confidence)
    return [
        selection.metric_label(found.response) if named else "",
        "worst first" if conclusive else selection.UNFIT,
        mean,
        f"{level} intervals that hold for all hosts and responses at once",
        "shaded: decision limits of the analysis of means" if conclusive else "",
        f"mean over {phrases.count(found.points, 'combination')} of the other factors" if found.points > 1 else "",
        f"left out, since they lack conditions: {phrases.listed(list(found.lacking))}" if found.lacking else "",
    ]
