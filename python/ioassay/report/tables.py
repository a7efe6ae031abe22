"""Tables of findings as text: every number formatted by its metric or to four digits. Computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioassay.metrics import format_metric, metric
from ioassay.narrative.finding import NOTHING, Table, cell_text


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
    """A table as shown."""

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


def mean(name: str, value: float, interval: tuple[float, float] | None, note: str = "") -> Cell:
    """A metric's value with its interval."""
    return Cell(format_metric(name, value), True, note, value, interval)


def cell(value: Any, name: str = "") -> Cell:
    """A value, of the metric `name`; None and numbers that do not exist are a dash, and a cell stays as it is."""
    if isinstance(value, Cell):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return Cell(cell_text(value, name), number, value=value if number else None)
