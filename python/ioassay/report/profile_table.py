"""The table that a study of named workloads begins with: a row a workload, beside it the shape of its latencies.

The small charts are inline SVG, coloured by the page's style sheet: they stand in table rows, need no script and print.
All share one logarithmic axis of latency, so that shapes and marks can be compared down the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay import units
from ioassay.analysis.effects.descriptive import FEW_BEYOND
from ioassay.analysis.storage.workload_profile import LATENCIES, RATE, VOLUME, Profile
from ioassay.metrics import format_metric
from ioassay.narrative import describe_text
from ioassay.report import tables
from ioassay.report.tables import Cell
from ioassay.stats.result import Floats, as_floats

WIDTH, HEIGHT = 250, 34
"""Of a small chart, in pixels."""
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


def table(profiles: Sequence[Profile]) -> ProfileTable | None:
    """The profiles as shown; None for none. What no row has is no column."""
    if not profiles:
        return None
    shown = [name for name in _NAMES if any(name in profile.values for profile in profiles)]
    axis = _axis(profiles)
    several = {profile.workload for profile in profiles if sum(p.workload == profile.workload for p in profiles) > 1}
    rows = [_row(profile, shown, axis, profile.workload in several) for profile in profiles]
    sparse = any(cell.text.endswith(_SPARSE) for row in rows for cell in row.values)
    caption = describe_text.profile_caption([profile.repetitions for profile in profiles], sparse=sparse)
    return ProfileTable([_NAMES[name] for name in shown], rows, _decades(axis) if axis else (), caption)


def _axis(profiles: Sequence[Profile]) -> tuple[float, float] | None:
    """Ends of the axis as powers of ten, a little beyond what it covers."""
    ends = [profile.latencies.quantiles(_COVERED) for profile in profiles if profile.latencies is not None]
    if not ends:
        return None
    low = math.log10(max(min(end[0] for end in ends), 1.0)) - 0.05
    high = math.log10(max(max(end[1] for end in ends), 10.0)) + 0.05
    return low, max(high, low + 1.0)


def _place(value: float, axis: tuple[float, float]) -> float:
    share = (math.log10(max(value, 1.0)) - axis[0]) / (axis[1] - axis[0])
    return round(WIDTH * min(max(share, 0.0), 1.0), 1)


def _decades(axis: tuple[float, float]) -> list[Mark]:
    places = {power: _place(10.0**power, axis) for power in range(math.ceil(axis[0]), math.floor(axis[1]) + 1)}
    return [Mark(x, units.format_ns(10.0**power), _anchor(x)) for power, x in places.items()]


def _anchor(x: float) -> str:
    return "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"


def _row(profile: Profile, shown: Sequence[str], axis: tuple[float, float] | None, named: bool) -> Row:
    workload = f"{profile.workload}, {profile.direction}s" if named else profile.workload
    values = [_cell(profile, name) for name in shown]
    if profile.latencies is None or axis is None:
        return Row(workload, values, "", (), "")
    marks = [
        Mark(_place(profile.values[name].mean, axis), _NAMES[name]) for name in LATENCIES if name in profile.values
    ]
    spoken = ", ".join(
        f"{_NAMES[name]} {format_metric(profile.metric(name), profile.values[name].mean)}"
        for name in LATENCIES
        if name in profile.values
    )
    return Row(workload, values, _outline(profile, axis), marks, f"Latencies of {workload}: {spoken}")


def _cell(profile: Profile, name: str) -> Cell:
    value = profile.values.get(name)
    if value is None:
        return Cell(tables.NOTHING, True)
    text = format_metric(profile.metric(name), value.mean)
    if name in LATENCIES and profile.latencies is not None:
        beyond = profile.latencies.count * (1 - float(name.partition(".p")[2]) / 100)
        return Cell(f"{text}{_SPARSE}" if beyond < FEW_BEYOND else text, True, value=value.mean)
    note = describe_text.half_width(profile.metric(name), value) if name == RATE else ""
    return Cell(text, True, note, value.mean)


def _outline(profile: Profile, axis: tuple[float, float]) -> str:
    """Share of the requests by latency as the outline of an area, as high as the chart at its mode."""
    assert profile.latencies is not None
    counts = _counts(profile, axis)
    heights = HEIGHT - 2 - (HEIGHT - 6) * counts / max(counts.max(), 1)
    step = WIDTH / _BINS
    corners = "".join(f"V{height:.1f}H{(place + 1) * step:.1f}" for place, height in enumerate(heights))
    return f"M0 {HEIGHT - 2}{corners}V{HEIGHT - 2}Z"


def _counts(profile: Profile, axis: tuple[float, float]) -> Floats:
    assert profile.latencies is not None
    values, counts = profile.latencies.buckets()
    shares = (np.log10(np.maximum(values, 1)) - axis[0]) / (axis[1] - axis[0])
    places = np.clip((shares * _BINS).astype(int), 0, _BINS - 1)
    return as_floats(np.bincount(places, weights=counts, minlength=_BINS))
