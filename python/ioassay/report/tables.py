"""Tables as shown: those of findings, means of conditions, and the profile of named workloads.

Every number is formatted by its metric or to four digits. The small charts of a profile are inline SVG, coloured by the
page's style sheet: they need no script and print. All share one logarithmic axis of latency, so that shapes and marks
can be compared down the column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ioassay import units
from ioassay.analysis.descriptive import FEW_BEYOND, LATENCIES, RATE, VOLUME, ConditionMean, Profile
from ioassay.metrics import format_metric, metric, requests_of
from ioassay.narrative import describe_text, phrases
from ioassay.narrative.finding import NOTHING, Answer, Table, cell_text
from ioassay.narrative.say import say

FEW_CONDITIONS = 12
"""Up to so many are told in the summary of a study that nothing answers."""
_MOST_COLUMNS = 6
WIDTH, HEIGHT = 250, 34
"""Of a small chart in the table, in pixels."""
_BINS = 80
_COVERED = (0.0005, 0.9995)
"""Quantiles between which the axis reaches at least."""
_SPARSE = "\u2009*"
_NAMES = {RATE: "IOPS", VOLUME: "Bandwidth", "lat.p50": "p50", "lat.p99": "p99", "lat.p99.9": "p99.9"}


@dataclass(frozen=True)
class Cell:
    """One cell as shown; numbers are set to the right. `note` is set small below.

    `value` is its number and `interval` the ends of the interval, both in `unit`, which the column's head has: what
    the page sorts by, copies and saves.
    """

    text: str
    number: bool
    note: str = ""
    value: float | None = None
    interval: tuple[float, float] | None = None
    unit: str = ""


@dataclass(frozen=True)
class Shown:
    columns: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]


def shown(table: Table) -> Shown:
    """A finding's table; a column is set to the right where most of what it holds are numbers."""
    metrics = [*table.metrics, *[""] * (len(table.columns) - len(table.metrics))]
    rows = [[cell(value, name) for value, name in zip(row, metrics, strict=False)] for row in table.rows]
    numeric = []
    for place in range(len(table.columns)):
        known = [row[place].number for row in rows if place < len(row) and row[place].text != NOTHING]
        numeric.append(sum(known) * 2 > len(known) or not known)
    named = zip(table.columns, numeric, metrics, strict=False)
    head = [Cell(str(column), number, unit=metric(name).unit if name else "") for column, number, name in named]

    def fitted(one: Cell, right: bool) -> Cell:
        # Words among numbers stay words, which may be broken into lines.
        return replace(one, number=right and (one.number or one.text == NOTHING))

    return Shown(head, [list(map(fitted, row, numeric)) for row in rows])


def mean_cell(name: str, value: float, interval: tuple[float, float] | None, note: str = "") -> Cell:
    """A metric's value with its interval."""
    return Cell(format_metric(name, value), True, note, value, interval)


def cell(value: Any, name: str = "") -> Cell:
    """A value, of the metric `name`; None and numbers that do not exist are a dash, and a cell stays as it is."""
    if isinstance(value, Cell):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return Cell(cell_text(value, name), number, value=value if number else None)


def means(rows: Sequence[ConditionMean], *, exact: bool = False) -> Shown | None:
    """Conditions below each other, metrics side by side: means with their intervals; None for no rows.

    What is `exact` has no interval, and nothing is said of it.
    """
    if not rows:
        return None
    metrics = list(dict.fromkeys(row.metric for row in rows))
    by_condition: dict[str, dict[str, ConditionMean]] = {}
    for row in rows:
        by_condition.setdefault(row.workload, {})[row.metric] = row
    present = sum(map(len, by_condition.values()))
    if len(metrics) > _MOST_COLUMNS or present < 0.6 * len(metrics) * len(by_condition):
        # One mean below the other: for many metrics, or such that occur in few conditions.
        long = Table.of(
            rows,
            ("Condition", lambda row: row.workload),
            ("Metric", lambda row: phrases.name(row.metric)),
            ("n", lambda row: row.repetitions),
            ("Value", lambda row: _mean(row, exact)),
            ("Median of the repetitions", lambda row: mean_cell(row.metric, row.median, None)),
        )
        return shown(long)
    titles = [(phrases.name(name), metric(name).unit) for name in metrics]
    columns = [Cell(title, True, unit="" if title.endswith(unit) else unit) for title, unit in titles]
    head, body = [Cell("Condition", False), Cell("n", True), *columns], []
    for workload, found in by_condition.items():
        counts = sorted({row.repetitions for row in found.values()})
        n = Cell("–".join(str(count) for count in (counts[0], counts[-1])[: len(counts)]), True)
        body.append([Cell(workload, False), n, *(_mean(found.get(name), exact) for name in metrics)])
    return Shown(head, body)


def _mean(row: ConditionMean | None, exact: bool) -> Cell:
    if row is None:
        return Cell(NOTHING, True)
    note = "no interval" if row.ci95 is None else phrases.span(row.metric, *row.ci95, format_metric)
    return mean_cell(row.metric, row.mean, row.ci95, "" if exact else note)


class Workload(NamedTuple):
    """One row. `outline` is an SVG path, '' where no latencies were kept; `spoken` says it in words.

    `marks` are vertical lines: x and the name of a percentile.
    """

    workload: str
    cells: Sequence[Cell]
    outline: str = ""
    marks: Sequence[tuple[float, str]] = ()
    spoken: str = ""


class ProfileTable(NamedTuple):
    """Heads of the columns, rows, and decades of the axis that they share: x, label and where that is anchored."""

    columns: Sequence[str]
    rows: Sequence[Workload]
    decades: Sequence[tuple[float, str, str]]
    caption: str
    width: int = WIDTH
    height: int = HEIGHT


def profile_table(profiles: Sequence[Profile]) -> ProfileTable | None:
    """The profiles as shown; None for none. What no row has is no column."""
    if not profiles:
        return None
    known = [name for name in _NAMES if any(name in profile.values for profile in profiles)]
    ends = [profile.latencies.quantiles(_COVERED) for profile in profiles if profile.latencies is not None]
    axis, decades = None, list[tuple[float, str, str]]()
    if ends:
        # Ends of the axis as powers of ten, a little beyond what it covers.
        low = math.log10(max(min(end[0] for end in ends), 1.0)) - 0.05
        high = math.log10(max(max(end[1] for end in ends), 10.0)) + 0.05
        axis = low, max(high, low + 1.0)
        for power in range(math.ceil(axis[0]), math.floor(axis[1]) + 1):
            x = _place(10.0**power, axis)
            anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
            decades.append((x, units.format_ns(10.0**power), anchor))
    several = {profile.workload for profile in profiles if sum(p.workload == profile.workload for p in profiles) > 1}
    rows = [_profile_row(profile, known, axis, profile.workload in several) for profile in profiles]
    sparse = any(one.text.endswith(_SPARSE) for row in rows for one in row.cells)
    # Of one direction without a rate: a load that writes, say, whose synchronisations matter.
    (first, *others), rates = dict.fromkeys(profile.direction for profile in profiles), RATE in known
    requests = "requests" if others or rates else requests_of(first)
    of = "" if others or rates else f"{first.rpartition('.')[2].replace('_', ' ')} "
    repetitions = [profile.repetitions for profile in profiles]
    caption = describe_text.profile_caption(repetitions, requests, rates=rates, sparse=sparse)
    return ProfileTable([f"{of}{_NAMES[name]}" for name in known], rows, decades, caption)


def _place(value: float, axis: tuple[float, float]) -> float:
    share = (math.log10(max(value, 1.0)) - axis[0]) / (axis[1] - axis[0])
    return round(WIDTH * min(max(share, 0.0), 1.0), 1)


def _profile_row(profile: Profile, names: Sequence[str], axis: tuple[float, float] | None, named: bool) -> Workload:
    workload = f"{profile.workload}, {requests_of(profile.direction)}" if named else profile.workload
    cells = [_profile_cell(profile, name) for name in names]
    if profile.latencies is None or axis is None:
        return Workload(workload, cells)
    known = {name: profile.values[name].mean for name in LATENCIES if name in profile.values}
    marks = [(_place(mean, axis), _NAMES[name]) for name, mean in known.items()]
    spoken = ", ".join(f"{_NAMES[name]} {format_metric(profile.metric(name), mean)}" for name, mean in known.items())
    # Share of the requests by latency as the outline of an area, as high as the chart at its mode.
    times_ns, counts = profile.latencies.buckets()
    shares = (np.log10(np.maximum(times_ns, 1)) - axis[0]) / (axis[1] - axis[0])
    sums = np.bincount(np.clip((shares * _BINS).astype(int), 0, _BINS - 1), weights=counts, minlength=_BINS)
    heights = HEIGHT - 2 - (HEIGHT - 6) * sums / max(sums.max(), 1)
    corners = "".join(f"V{height:.1f}H{(at + 1) * WIDTH / _BINS:.1f}" for at, height in enumerate(heights))
    outline = f"M0 {HEIGHT - 2}{corners}V{HEIGHT - 2}Z"
    return Workload(workload, cells, outline, marks, f"Latencies of {workload}: {spoken}")


def _profile_cell(profile: Profile, name: str) -> Cell:
    value = profile.values.get(name)
    if value is None:
        return Cell(NOTHING, True)
    text = format_metric(profile.metric(name), value.mean)
    if name in LATENCIES and profile.latencies is not None:
        beyond = profile.latencies.count * (1 - float(name.partition(".p")[2]) / 100)
        return Cell(f"{text}{_SPARSE}" if beyond < FEW_BEYOND else text, True, value=value.mean)
    note = describe_text.half_width(profile.metric(name), value) if name == RATE else ""
    return Cell(text, True, note, value.mean)


# Markdown: read by a forge that renders GitHub Flavored Markdown (its specification, version 0.29), as the summary or a
# comment of a change. Names come from studies and machines, so no name may format the text or call a person: characters
# that mean something are escaped. Figures, the distribution of what was measured and the caveats are on the page.

BREAKS = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_MOST_CONDITIONS = 50


def markdown(title: str, premises: Sequence[str], answered: Sequence[Answer], rows: Sequence[ConditionMean]) -> str:
    """A run, with a line feed at its end; `premises` are lines on trust and on how the trials ended."""
    blocks = [f"## {plain(title)}"]
    blocks += ["  \n".join(plain(line) for line in premises if line)]
    for answer in answered:
        head = f"**{plain(answer.title)}**\n\n" if len(answered) > 1 and answer.title else ""
        blocks.append(head + "\n".join(f"- {plain(sentence)}" for sentence in answer.sentences))
    for study in dict.fromkeys(row.study for row in rows):
        own = [row for row in rows if row.study == study]
        head = f"**{plain(study)}**\n\n" if len({row.study for row in rows}) > 1 else ""
        blocks.append(head + "\n".join(_means_table(own)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _means_table(rows: Sequence[ConditionMean]) -> Iterator[str]:
    found = means(rows, exact=not any(row.ci95 for row in rows))
    if found is not None:
        yield _table_row(column.text for column in found.columns)
        yield "|" + "|".join("---:" if column.number else "---" for column in found.columns) + "|"
        for cells in found.rows[:_MOST_CONDITIONS]:
            yield _table_row(f"{cell.text} ({cell.note})" if cell.note else cell.text for cell in cells)
        if len(found.rows) > _MOST_CONDITIONS:
            yield f"\n… and {len(found.rows) - _MOST_CONDITIONS} more conditions"
    if any(row.ci95 for row in rows):
        yield f"\n{say('describe.means_95')}"


def plain(text: object) -> str:
    """Text on one line, without markup, HTML, control characters, mentions and references."""
    escaped = re.sub(r"[\\`*_\[\]<>&|~#]", r"\\\g<0>", re.sub(BREAKS, " ", str(text)))
    return re.sub(r"[@#](?=\w)", "\\g<0>\u2060", escaped)


def _table_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"
