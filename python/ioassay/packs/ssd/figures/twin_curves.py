"""The mean latency of a learned drive over depth, measured (points) and of its twin (lines), a colour for each size."""

from __future__ import annotations

from typing import Any

from ioassay.narrative.say import sentence
from ioassay.packs.ssd.questions import twin
from ioassay.packs.ssd.twin.loads import plain
from ioassay.report.figures import Kind, chart, selection
from ioassay.report.figures.chart import channel
from ioassay.report.figures.spec import FigureSpec, NoData
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_size


class Spec(FigureSpec):
    """Curves of reads or of writes."""

    operation: str = "read"
    height: int = 300


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """Plain loads of several depths or sizes; those of single addresses are for structure and are left out."""
    selection.select(records, study, spec.where)  # says why where nothing went well
    if (found := twin.learned(records.root)) is None:
        raise NoData(sentence("twin.chart_none", run=records.root.name))
    chosen, rows = plain(each.load for each in found.fit.residuals), []
    for each in found.fit.residuals:
        load = each.load
        if each.statistic == twin.MEAN and load.operation == spec.operation and load in chosen:
            shown = {"depth": load.depth, "size": format_size(load.size_bytes), "load": load.name}
            error = f"{each.modelled / each.measured - 1:+.1%}"
            rows.append({**shown, "measured": each.measured, "modelled": each.modelled, "error": error})
    if not rows:
        raise NoData(sentence("twin.chart_none", run=records.root.name))
    names = [format_size(size) for size in sorted({each.size_bytes for each in chosen})]
    log = {"type": "log", "nice": False}
    x = channel("depth:Q", title="Depth", scale={**log, "base": 2, "padding": 12})
    color = chart.looks("size", names, {"orient": "bottom", "title": None}, color=None)
    base = chart.base(rows)
    y = {"title": sentence("twin.chart_latency"), "scale": log}
    line = base.mark("line", strokeWidth=1.4).encode(x=x, y=channel("modelled:Q", **y), **color)
    tips = chart.tips({"load:N": "", "measured:Q": "", "modelled:Q": "", "error:N": ""})
    points = base.mark("point", style="mark", filled=True, size=40)
    dots = points.encode(x=x, y=channel("measured:Q", **y), tooltip=tips, **color)
    layers, note = ([dots], "misfit") if found.fit.misfit else ([line, dots], "note")
    both = chart.layer(*layers, width=spec.width, height=spec.height)
    # No study: the loads are of all of them, and what the first one shares is not what the others do.
    return chart.figure(both, spec, None, sentence("twin.chart_title"), [sentence(f"twin.chart_{note}")])


TWIN_CURVES = Kind(Spec, draw)
