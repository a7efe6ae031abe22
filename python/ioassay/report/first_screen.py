"""What a page begins with: the picture that answers the question, beside or above the answer.

A study of named workloads begins with their table, a row a workload, beside it the shape of its latencies; a suite with
the figure over all of its studies; any other study with its first figure, so the order of `[[figures]]` says which.

The table's small charts are inline SVG, coloured by the page's style sheet: they need no script and print. All share
one logarithmic axis of latency, so that shapes and marks can be compared down the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay import units
from ioassay.analysis import descriptive
from ioassay.analysis.descriptive import FEW_BEYOND, LATENCIES, RATE, VOLUME, Profile
from ioassay.metrics import format_metric
from ioassay.narrative import describe_text
from ioassay.narrative.finding import NOTHING
from ioassay.report.figures import Drawn
from ioassay.report.figures.default_figures import PARTS
from ioassay.report.figures.spec import VegaLite
from ioassay.report.tables import Cell
from ioassay.store.dataset import Dataset

_SIDE_BY_SIDE = 2
"""So many studies show a figure each where none is over all of them."""
_BESIDE_PX = (800, 620)
"""Up to this width and height a figure has the answer to its right; what is higher has it above."""
_MARGIN_PX = (75, 60)
"""About what axes and their titles take around a chart."""
WIDTH, HEIGHT = 250, 34
"""Of a small chart in the table, in pixels."""
_BINS = 80
_COVERED = (0.0005, 0.9995)
"""Quantiles between which the axis reaches at least."""
_SPARSE = "\u2009*"
_NAMES = {RATE: "IOPS", VOLUME: "Bandwidth", "lat.p50": "p50", "lat.p99": "p99", "lat.p99.9": "p99.9"}


@dataclass(frozen=True)
class Mark:
    """A vertical line: of a percentile in a chart, or a decade of the axis."""

    x: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Row:
    """One workload as shown. `outline` is an SVG path, '' where no latencies were kept; `spoken` says it in words."""

    workload: str
    values: Sequence[Cell]
    outline: str
    marks: Sequence[Mark]
    spoken: str


@dataclass(frozen=True)
class ProfileTable:
    """The whole table: heads of the columns, rows, decades of the shared axis."""

    columns: Sequence[str]
    rows: Sequence[Row]
    decades: Sequence[Mark]
    caption: str
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True)
class FirstScreen:
    """A table or figures, or neither. `layout`: 'beside', 'below' or 'above' is where the answer stands."""

    profile: ProfileTable | None
    figures: Sequence[Drawn]

    @property
    def layout(self) -> str:
        """A class of the style sheet."""
        if self.profile is not None or len(self.figures) != 1:
            return "below"
        width, height = _size(self.figures[0].spec)
        if height > _BESIDE_PX[1]:
            return "above"
        return "beside" if width <= _BESIDE_PX[0] else "below"


def _size(chart: VegaLite) -> tuple[float, float]:
    for kind, columns in (("hconcat", None), ("vconcat", 1), ("concat", chart.get("columns"))):
        if panels := [_size(part) for part in chart.get(kind, ())]:
            across = columns or len(panels)
            rows = [panels[start : start + across] for start in range(0, len(panels), across)]
            widths, heights = ([[size[way] for size in row] for row in rows] for way in (0, 1))
            return max(map(sum, widths)), sum(map(max, heights))
    return chart.get("width", 0) + _MARGIN_PX[0], chart.get("height", 0) + _MARGIN_PX[1]


def first_screen(records: Dataset, drawn: Sequence[Drawn]) -> FirstScreen:
    """The picture of the first screen; figures that have nothing to show do not lead."""
    figures = [figure for figure in drawn if not figure.problem]
    overall = [figure for figure in figures if not figure.study]
    if overall:
        return FirstScreen(None, overall[:1])
    if len(records.studies) == 1:
        profile = profile_table(descriptive.profiles(records, records.studies[0]))
        explains = records.studies[0].may_explain and figures[:1] and figures[0].kind == PARTS
        return FirstScreen(profile, [] if profile and not explains else figures[:1])
    firsts = [next((figure for figure in figures if figure.study == study.name), None) for study in records.studies]
    shown = [figure for figure in firsts if figure is not None]
    alike = len(shown) == _SIDE_BY_SIDE and all("width" in figure.spec for figure in shown)
    return FirstScreen(None, shown if alike else shown[:1])


def profile_table(profiles: Sequence[Profile]) -> ProfileTable | None:
    """The profiles as shown; None for none. What no row has is no column."""
    if not profiles:
        return None
    shown = [name for name in _NAMES if any(name in profile.values for profile in profiles)]
    ends = [profile.latencies.quantiles(_COVERED) for profile in profiles if profile.latencies is not None]
    axis, decades = None, list[Mark]()
    if ends:
        # Ends of the axis as powers of ten, a little beyond what it covers.
        low = math.log10(max(min(end[0] for end in ends), 1.0)) - 0.05
        high = math.log10(max(max(end[1] for end in ends), 10.0)) + 0.05
        axis = low, max(high, low + 1.0)
        for power in range(math.ceil(axis[0]), math.floor(axis[1]) + 1):
            x = _place(10.0**power, axis)
            anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
            decades.append(Mark(x, units.format_ns(10.0**power), anchor))
    several = {profile.workload for profile in profiles if sum(p.workload == profile.workload for p in profiles) > 1}
    rows = [_row(profile, shown, axis, profile.workload in several) for profile in profiles]
    sparse = any(cell.text.endswith(_SPARSE) for row in rows for cell in row.values)
    caption = describe_text.profile_caption([profile.repetitions for profile in profiles], sparse=sparse)
    return ProfileTable([_NAMES[name] for name in shown], rows, decades, caption)


def _place(value: float, axis: tuple[float, float]) -> float:
    share = (math.log10(max(value, 1.0)) - axis[0]) / (axis[1] - axis[0])
    return round(WIDTH * min(max(share, 0.0), 1.0), 1)


def _row(profile: Profile, shown: Sequence[str], axis: tuple[float, float] | None, named: bool) -> Row:
    workload = f"{profile.workload}, {profile.direction}s" if named else profile.workload
    values = [_cell(profile, name) for name in shown]
    if profile.latencies is None or axis is None:
        return Row(workload, values, "", (), "")
    known = {name: profile.values[name].mean for name in LATENCIES if name in profile.values}
    marks = [Mark(_place(mean, axis), _NAMES[name]) for name, mean in known.items()]
    spoken = (f"{_NAMES[name]} {format_metric(profile.metric(name), mean)}" for name, mean in known.items())
    # Share of the requests by latency as the outline of an area, as high as the chart at its mode.
    times_ns, counts = profile.latencies.buckets()
    shares = (np.log10(np.maximum(times_ns, 1)) - axis[0]) / (axis[1] - axis[0])
    sums = np.bincount(np.clip((shares * _BINS).astype(int), 0, _BINS - 1), weights=counts, minlength=_BINS)
    heights = HEIGHT - 2 - (HEIGHT - 6) * sums / max(sums.max(), 1)
    corners = "".join(f"V{height:.1f}H{(at + 1) * WIDTH / _BINS:.1f}" for at, height in enumerate(heights))
    return Row(
        workload,
        values,
        f"M0 {HEIGHT - 2}{corners}V{HEIGHT - 2}Z",
        marks,
        f"Latencies of {workload}: {', '.join(spoken)}",
    )


def _cell(profile: Profile, name: str) -> Cell:
    value = profile.values.get(name)
    if value is None:
        return Cell(NOTHING, True)
    text = format_metric(profile.metric(name), value.mean)
    if name in LATENCIES and profile.latencies is not None:
        beyond = profile.latencies.count * (1 - float(name.partition(".p")[2]) / 100)
        return Cell(f"{text}{_SPARSE}" if beyond < FEW_BEYOND else text, True, value=value.mean)
    note = describe_text.half_width(profile.metric(name), value) if name == RATE else ""
    return Cell(text, True, note, value.mean)
