"""A request's mean latency by condition, as a bar of its parts: as the drive counts, or as the witness explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis import path_of
from ioassay.analysis.measurements.cells import Cell
from ioassay.factors import CASE, factor_label
from ioassay.narrative.latency_text import part_name
from ioassay.records.observation import PARTS
from ioassay.records.record import Scalar
from ioassay.report.figures import axes, chart, scales, selection
from ioassay.report.figures.spec import FigureSpec, NoData, VegaLite
from ioassay.report.figures.vega_lite import channel
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.units import format_ns, format_percent
from ioassay.verify.latency_parts import ENGINES, TOOL, LatencyPart

_Bar = tuple[Mapping[str, Scalar], int, Mapping[str, tuple[float, str]]]
"""A condition, its trials, and by the name of each part its mean in ns and what else is known of it."""


class Spec(FigureSpec):
    """Keys of a chart of costs. `where` leaves one condition of each level of `x`, or their mean is shown."""

    x: str = CASE


def draw(records: Dataset, study: Study, spec: Spec) -> Any:
    """One bar a level, in the study's order."""
    cells = selection.measured(records, study, spec.where, "total.iops", spec.x)
    explains = study.may_explain
    costs = (_explained if explains else _counted)(records, study, cells)
    if not costs:
        kept = "was watched at level explain" if explains else "has a drive that counted the tool's requests"
        raise NoData(f"no condition {kept}")
    axis = axes.category_axis(spec.x, study.design.in_order(spec.x, [point[spec.x] for point, _, _ in costs]))
    unit = scales.unit_for("read.lat.mean", [sum(ns for ns, _ in parts.values()) for _, _, parts in costs])
    watched = [part_name(part, engine) for part in (*PARTS, TOOL) for engine in ENGINES]
    order = watched if explains else path_of(study).NAMES.values()
    names = [name for name in dict.fromkeys(order) if any(name in parts for _, _, parts in costs)]
    rows, told = list[VegaLite](), list[VegaLite]()
    for level in axis.levels:
        own = [parts for point, _, parts in costs if point[spec.x] == level]
        low, texts = 0.0, []
        for name in (name for name in names if any(name in parts for parts in own)):
            mean_ns = sum(parts[name][0] for parts in own if name in parts) / len(own)
            high, text = low + unit.scale(mean_ns), format_ns(mean_ns)
            text += own[0][name][1] if len(own) == 1 else ""
            ends = {"y": round(low, 4), "y2": round(high, 4)}
            rows.append({"x": axis.position(level), "part": name, **ends, "mean_text": text})
            texts.append(f"{name} {text}")
            low = high
        told.append({"level": axis.position(level), "mean_text": ", ".join(texts)})
    pooled = selection.pooled([point for point, _, _ in costs], spec.x)
    shown = f"{len(costs)} of {len(cells)} conditions" if len(costs) < len(cells) else ""
    notes = [shown, "means over trials", selection.repetitions_text([trials for _, trials, _ in costs]), pooled]
    y = channel("y:Q", title=unit.titled("Mean latency"))
    legend = {"symbolType": "square", "orient": "top", "columns": 3}
    color = channel("part:N", title=None, sort=names, legend=legend)
    tooltip = chart.tips({"x:N": factor_label(spec.x), "part:N": "", "mean_text:N": "mean"})
    bars = chart.base(rows).mark("bar", style="band", width={"band": 0.72})
    bars = bars.encode(x=axis.encoding(spec.width), y=y, y2="y2:Q", color=color, tooltip=tooltip)
    title = f"Mean latency of a request by part, by {factor_label(spec.x)}"
    return chart.layered([bars], spec, study, title, notes, points=told)


def _counted(records: Dataset, study: Study, cells: Sequence[Cell]) -> list[_Bar]:
    """By the counts of a drive that a pack makes."""
    path = path_of(study)
    found = path.bars(records, study, cells) if path else []
    return [(point, trials, {name: (ns, "") for name, ns in parts.items()}) for point, trials, parts in found]


def _explained(records: Dataset, study: Study, cells: Sequence[Cell]) -> list[_Bar]:
    """By the witness, of the operations that took most of the time."""
    from ioassay.analysis.storage import latency_shares

    return [
        (one.point, one.trials, {part_name(part.name, kind.engine): (part.mean_ns, _more(part)) for part in kind.parts})
        for one in latency_shares.shares_of(records, cells)
        for kind in one.kinds[:1]
    ]


def _more(part: LatencyPart) -> str:
    """Its share, and its percentiles where these are known."""
    known = [f"{name} {format_ns(ns)}" for name, ns in (("p50", part.p50_ns), ("p99", part.p99_ns)) if ns is not None]
    return f" ({', '.join([f'{format_percent(part.share)} %', *known])})"
