"""The tables of the question where the best level lies, and the names of levels in them."""

from __future__ import annotations

from typing import Any

from ioassay import units
from ioassay.analysis.optimum.optimum import Peak
from ioassay.factors import factor_label, is_nanoseconds, level_phrase, level_reading, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Table
from ioassay.stats.best_level import BestLevel
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import Contrasts
from ioassay.stats.result import Interval, Undefined, mean_of
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


def candidates(one: Peak) -> str:
    """The levels that may be best: `3 to 6` where all between may be, too; else each, since one between is worse."""
    places = one.candidates
    if places[-1] - places[0] == len(places) - 1 and len(places) > 1:
        return f"{short(one, places[0])} to {short(one, places[-1])}"
    return phrases.listed([short(one, place) for place in places], 9)


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
    response, contrasts = one.part.response, one.family.contrasts
    raw = isinstance(contrasts, Contrasts) and contrasts.means.scale == Scale.RAW
    rows: list[list[Any]] = []
    for index, cell in enumerate(one.cells):
        rows.append(
            [
                level_text(one.factor, one.level(index)),
                cell.values.size,
                mean_of(cell.values),
                *_against_best(one, index),
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
        "against the best",
        "low",
        "high",
        "standing",
    ]
    named = ["", "", response, *[response if raw else ""] * 3, ""]
    if one.scaling is not None:
        columns += ["speedup", "efficiency", "low", "high"]
        named += [""] * 4
    return Table(columns, rows, named)


def _against_best(one: Peak, index: int) -> list[Any]:
    """The ratio to the best level with its interval, and what follows from it."""
    contrasts = one.family.contrasts
    if isinstance(contrasts, Undefined) or isinstance(one.levels, Undefined):
        return [None, None, None, ""]
    if index == one.best:
        return [None, None, None, "best mean"]
    pair = contrasts.pair(index, one.best)
    return [pair.estimate, pair.interval.low, pair.interval.high, standing(one.levels, index)]


def standing(found: BestLevel, index: int) -> str:
    """What is known of a level: `as good`, `worse` or `undecided`."""
    return "as good" if index in found.as_good else "worse" if index not in found.candidates else "undecided"


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
    known = isinstance(one.levels, BestLevel)
    may, good = (
        phrases.listed([short(one, index) for index in indices], 9) if known and indices else ""
        for indices in (one.candidates, one.levels.as_good if isinstance(one.levels, BestLevel) else ())
    )
    flat = span(one, one.plateau.first, one.plateau.last) if one.plateau else ""
    return [short(one, one.best), may, one.mean, good, flat, one.knee.x if isinstance(one.knee, Knee) else None]
