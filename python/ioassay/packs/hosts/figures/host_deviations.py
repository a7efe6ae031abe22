"""Which host is slow: each host's deviation with its interval, worst first, and the decision limits.

Colour and shape both say the standing. A host whose mark lies outside of the shaded limits deviates, and then its
interval does not cross the line of the mean: both are the same statement (`questions/host_comparison.py`).
Where the machine was unfit to measure there are neither standings nor limits.
"""

from __future__ import annotations

from typing import Any

from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.say import sentence
from ioassay.packs.hosts.questions import host_comparison, hosts_text
from ioassay.packs.hosts.questions.host_comparison import ResponseComparison
from ioassay.report.figures import chart, selection
from ioassay.report.figures.chart import channel, layer
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.stats.condition_means import Scale
from ioassay.store.dataset import Dataset
from ioassay.study.model import Figure, Study

_ROW_PX = 22
_SHAPES = {"slow": "triangle-down", "fast": "triangle-up", "equal": "circle", "apart": "diamond", "undecided": "square"}
_COLOURS = ("fast", "slow", "equal", "apart", "4", "5", "6", "undecided")
"""A standing at the place of its colour in the theme's categories: blue, vermilion, green, the next, and grey."""


class Spec(FigureSpec):
    """Keys of a chart of hosts. Without `y` it is the response in which hosts deviate most."""

    y: str | None = None


def suggested(study: Study) -> list[Figure]:
    return [Figure(kind="hosts", name="hosts")] if len(study.hosts) > 1 else []


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """The layered chart; NoData where hosts are not compared."""
    found = _response(records, study, spec)
    conclusive = selection.is_conclusive(records, study)
    rows = _rows(found)
    share, better = found.scale == Scale.LOG, "lower" if found.lower else "higher"
    x = channel(
        "deviation:Q",
        title=sentence("hosts.chart_axis", base="the other host" if len(rows) == 2 else "the mean", better=better),
        axis={"format": "+.2~%" if share else "~s", "grid": True},
    )
    scale = {"paddingInner": 0, "paddingOuter": 0}
    y = channel("host:N", sort=[row["host"] for row in rows], title="host", scale=scale)
    mean = chart.base([{"deviation": 0}]).mark("rule", style="reference", strokeWidth=1.5).encode(x="deviation:Q")
    base = chart.base(rows).encode(y=y)
    tooltip = {"host:N": "host", "text:N": "deviation", "interval:N": "interval"}
    limits, color, looks = list[Any](), VegaLite(), VegaLite()
    if conclusive:
        present = [one for one in _SHAPES if one in {row["standing"] for row in rows}]
        legend = {"title": None, "values": present, "orient": "bottom"}
        shapes = [_SHAPES.get(name, "circle") for name in _COLOURS]
        looks = chart.looks("standing", _COLOURS, legend, color=None, shape=shapes)
        color = {"color": looks["color"]}
        tooltip["standing:N"] = "standing"
        limits = [base.mark("rect", style="window").encode(x="from:Q", x2="to:Q")]
    rule = base.mark("rule", strokeWidth=2, opacity=0.85).encode(x=chart.on(x, "low"), x2="high:Q", **color)
    point = base.mark("point", filled=True, size=85, opacity=1).encode(x=x, tooltip=chart.tips(tooltip), **looks)
    words = base.mark("text", style="value", align="left", dx=8).encode(x={"value": "width"}, text="text:N")
    whole = layer(*limits, mean, rule, point, words, width=spec.width, height=_ROW_PX * len(rows))
    shown = "{host}: {text} ({interval})" + (", {standing}" if conclusive else "")
    details = "; ".join(shown.format(**row) for row in rows)
    title, notes = f"{selection.metric_label(found.response)} of each host", _notes(found, study, conclusive, spec)
    return chart.figure(whole, spec, study, title, notes, details=details)


def _response(records: Dataset, study: Study, spec: Spec) -> ResponseComparison:
    selection.select(records, study, {})  # says why where nothing went well
    if len(study.hosts) < 2:
        raise NoData(f"the study '{study.name}' names fewer than two hosts (run.hosts)")
    if spec.where:
        raise NoData("hosts are compared over all points of a study; expected no key 'where'")
    comparison = host_comparison.comparison(records, study)
    compared = {one.response: one for one in comparison.compared}
    if not compared:
        raise NoData(str(hosts_text.claims(comparison)[0]).rstrip("."))
    if spec.y is None:
        return max(compared.values(), key=lambda one: max(own.clarity for own in one.hosts))
    if spec.y in compared:
        return compared[spec.y]
    why = sentence("hosts.chart_not_compared", metric=spec.y)
    raise NoData(f"{why}; known: {', '.join(compared)}")


def _rows(found: ResponseComparison) -> list[VegaLite]:
    share, centre = found.scale == Scale.LOG, 1.0 if found.scale == Scale.LOG else 0.0

    def text(deviation: float) -> str:
        plus, value = "+" if deviation > 0 else "", format_metric(found.response, deviation)
        return f"{phrases.points(deviation, sign=True)} %" if share else f"{plus}{value}"

    rows = []
    for one in found.hosts:
        ends = (one.interval.low, one.interval.high, *one.limits)
        places = [float(f"{number - centre:.5g}") for number in (one.estimate, *ends)]
        row: VegaLite = dict(zip(("deviation", "low", "high", "from", "to"), places, strict=True))
        size, low, high = map(text, places[:3])
        rows.append({**row, "host": one.host, "standing": one.standing, "text": size, "interval": f"{low} to {high}"})
    return rows


def _notes(found: ResponseComparison, study: Study, conclusive: bool, spec: Spec) -> list[str]:
    agree, every = len(found.reference), len(found.hosts)
    against = "all" if agree == every else "agreeing" if conclusive else "some"
    return [
        selection.metric_label(found.response) if spec.title else "",
        "worst first" if conclusive else selection.UNFIT,
        sentence(f"hosts.chart_{'other' if every == 2 else against}", agree=agree, every=every),
        sentence("hosts.chart_intervals", level=phrases.level(study.analysis.confidence)),
        sentence("hosts.chart_limits") if conclusive else "",
        sentence("hosts.chart_over", points=found.points) if found.points > 1 else "",
        sentence("hosts.chart_lacking", hosts=list(found.lacking)) if found.lacking else "",
    ]
