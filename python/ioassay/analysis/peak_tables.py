"""The tables and the named numbers of the question where the best level lies, and how levels are called in both."""

from __future__ import annotations

import re
from typing import Any

from ioassay import metrics
from ioassay.analysis import wording
from ioassay.analysis.finding import Table
from ioassay.analysis.peak import Peak
from ioassay.analysis.statistics.best import BestLevel, NotWorse
from ioassay.analysis.statistics.result import Interval, mean_of, plain
from ioassay.analysis.statistics.saturation import Knee
from ioassay.analysis.statistics.scalability import USL, Law


def numbers(one: Peak) -> dict[str, Any]:
    """The statistics of one place under stable names."""
    near = one.near.members if isinstance(one.near, NotWorse) else None
    likely = one.likely if isinstance(one.likely, BestLevel) else None
    levels = [one.level(index) for index in range(len(one.cells))]
    ends = one.plateau if near is not None else None
    return {
        "factor": one.factor,
        "best": one.level(one.best),
        "mean": one.mean,
        "mean_interval": plain(one.interval),
        "levels": levels,
        "probability_of_being_best": list(likely.probability) if likely else None,
        "best_interval": _bounds(one, likely) if likely and one.numbers else None,
        "not_worse": None if near is None else [levels[index] for index in near],
        "not_worse_p": list(one.near.p) if isinstance(one.near, NotWorse) else None,
        "plateau": None if ends is None else [levels[ends[0]], levels[ends[1]]],
        "nearly_best_from": None if one.nearly is None else levels[one.nearly],
        "knee": plain(one.knee),
        "scaling": plain(one.scaling),
        "usl": plain(one.usl),
        "amdahl": plain(one.amdahl),
        "law": one.law.kind if one.law else None,
    }


def _bounds(one: Peak, likely: BestLevel) -> dict[str, Any]:
    return {"low": one.level(likely.low), "high": one.level(likely.high), "confidence": likely.confidence}


def level_text(one: Peak, index: int) -> str:
    return wording.level_of(one.factor, one.level(index))


def short(one: Peak, index: int) -> str:
    """A level without what it counts: `4`, `64 KiB`."""
    text = str(one.level(index))
    spaced = re.sub(r"^([0-9.]+)([A-Za-z]+)$", r"\1 \2", text)
    return spaced if spaced in level_text(one, index) else text


def span(one: Peak, first: int, last: int) -> str:
    """`3 to 6 workers`, `queue depth 4 to 16`."""
    head, text, tail = level_text(one, last).partition(short(one, last))
    return f"{head}{short(one, first)} to {text}{tail}"


def place_text(one: Peak, number: float) -> str:
    """A place between levels with what it counts: `4.7 workers`."""
    text = place(one, number)
    return text if " " in text else wording.level_of(one.factor, text)


def place(one: Peak, number: float) -> str:
    """A place between levels: sizes as sizes, other numbers with three digits."""
    sizes = any(re.search(r"[0-9][KMGT]?i?B$", str(one.level(index))) for index in range(len(one.cells)))
    return metrics.format_metric("read.bytes", round(number)) if sizes else wording.plain_number(number)


def levels(one: Peak) -> Table:
    """A row a level."""
    likely = one.likely.probability if isinstance(one.likely, BestLevel) else [None] * len(one.cells)
    p = one.near.p if isinstance(one.near, NotWorse) else [None] * len(one.cells)
    response = one.part.response
    rows: list[list[Any]] = []
    for index, cell in enumerate(one.cells):
        rows.append([one.level(index), cell.values.size, mean_of(cell.values), likely[index], p[index]])
        if one.scaling is not None:
            scaled = one.scaling[index]
            bounds = scaled.interval
            rows[-1] += [scaled.speedup, scaled.efficiency]
            rows[-1] += [bounds.low if bounds else None, bounds.high if bounds else None]
    columns = [one.factor, "n", "mean", "share of resamples in which it is best", "p that none is better"]
    named = ["", "", response, "", ""]
    if one.scaling is not None:
        columns += ["speedup", "efficiency", "low", "high"]
        named += [""] * 4
    return Table(columns, rows, named)


def fits(one: Peak) -> list[Table]:
    """A row a law that could be fitted."""
    laws = [found for found in (one.usl, one.amdahl) if isinstance(found, Law)]
    if not laws:
        return []
    unit = one.part.response
    columns = ["law", "one worker", "contention", "low", "high", "coherency", "low", "high", "peak at", "low", "high"]
    rows = [[_name(found), found.gamma, found.alpha, *_ends(found.alpha_interval)] for found in laws]
    for line, found in zip(rows, laws, strict=True):
        line += [found.beta if found.kind == USL else None, *_ends(found.beta_interval)]
        line += [found.peak, *_ends(found.peak_interval), found.r2, found.lack_p, wording.in_percent(found.worst)]
    columns += ["R²", "lack of fit p", "largest deviation of a mean (%)"]
    return [Table(columns, rows, ["", unit, *[""] * (len(columns) - 2)])]


def _name(found: Law) -> str:
    return "universal scalability" if found.kind == USL else "Amdahl"


def _ends(bounds: Interval | None) -> list[float | None]:
    return [bounds.low, bounds.high] if bounds else [None, None]


def row(one: Peak) -> list[Any]:
    likely = one.likely if isinstance(one.likely, BestLevel) else None
    if likely is None:
        may = ""
    elif one.numbers is None:
        may = wording.percent(likely.probability[one.best])
    else:
        may = short(one, likely.low)
        may += f" to {short(one, likely.high)}" if likely.high > likely.low else ""
    members = one.near.members if isinstance(one.near, NotWorse) else ()
    near = wording.listed([short(one, index) for index in members], 9) if members else ""
    return [one.level(one.best), may, one.mean, near, one.knee.x if isinstance(one.knee, Knee) else None]
