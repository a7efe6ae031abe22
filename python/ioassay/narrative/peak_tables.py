"""The tables of the question where the best level lies, and the names of levels in them."""

from __future__ import annotations

from typing import Any

from ioassay import units
from ioassay.analysis.optimum.optimum import Peak
from ioassay.factors import factor_label, is_nanoseconds, level_phrase, level_reading, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Table
from ioassay.stats.best_level import BestLevel, NotWorse
from ioassay.stats.result import Interval, mean_of
from ioassay.stats.saturation import Knee
from ioassay.stats.scalability import USL, Law


def phrase_at(one: Peak, index: int) -> str:
    """A level with what it counts: `4 workers`."""
    return level_phrase(one.factor, one.level(index))


def short(one: Peak, index: int) -> str:
    """A level without what it counts: `4`, `64 KiB`."""
    return level_text(one.factor, one.level(index))


def span(one: Peak, first: int, last: int) -> str:
    """`3 to 6 workers`, `queue depth 4 to 16`."""
    head, text, tail = phrase_at(one, last).partition(short(one, last))
    return f"{head}{short(one, first)} to {text}{tail}"


def place_text(one: Peak, number: float) -> str:
    """A place between levels with what it counts: `4.7 workers`."""
    text = place(one, number)
    return text if " " in text else level_phrase(one.factor, text)


def place(one: Peak, number: float) -> str:
    """A place between levels: sizes as sizes, times as times, other numbers with three digits."""
    kind = level_reading(one.factor, [cell.point[one.factor] for cell in one.cells])
    shown = {"size": lambda: units.format_size(round(number)), "duration": lambda: units.format_duration(number)}
    shown |= {"percent": lambda: f"{phrases.plain_number(number)} %", "rate": lambda: units.format_rate(number)}
    if is_nanoseconds(one.factor):
        return units.format_ns(number)
    return shown.get(kind or "", lambda: phrases.plain_number(number))()


def levels(one: Peak) -> Table:
    """A row a level."""
    likely = one.likely.probability if isinstance(one.likely, BestLevel) else [None] * len(one.cells)
    p = one.near.p if isinstance(one.near, NotWorse) else [None] * len(one.cells)
    response = one.part.response
    rows: list[list[Any]] = []
    for index, cell in enumerate(one.cells):
        rows.append(
            [
                level_text(one.factor, one.level(index)),
                cell.values.size,
                mean_of(cell.values),
                likely[index],
                p[index],
            ]
        )
        if one.scaling is not None:
            scaled = one.scaling[index]
            bounds = scaled.interval
            rows[-1] += [scaled.speedup, scaled.efficiency]
            rows[-1] += [bounds.low if bounds else None, bounds.high if bounds else None]
    columns = [
        factor_label(one.factor),
        "n",
        phrases.centre(one.part.merged),
        "share of resamples in which it is best",
        "p that none is better",
    ]
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
        line += [found.peak, *_ends(found.peak_interval), found.r2, found.lack_p, phrases.in_percent(found.worst)]
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
        may = phrases.percent(likely.probability[one.best])
    else:
        may = short(one, likely.low)
        may += f" to {short(one, likely.high)}" if likely.high > likely.low else ""
    members = one.near.members if isinstance(one.near, NotWorse) else ()
    near = phrases.listed([short(one, index) for index in members], 9) if members else ""
    flat = span(one, *one.plateau) if one.plateau else ""
    return [short(one, one.best), may, one.mean, near, flat, one.knee.x if isinstance(one.knee, Knee) else None]
