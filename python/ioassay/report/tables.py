"""Tables of findings as text: every number formatted by its metric or to four digits. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioassay.metrics import format_metric, metric
from ioassay.narrative.finding import Table

NOTHING = "–"


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
    numeric = [_is_numeric([row[place] for row in rows if place < len(row)]) for place in range(len(table.columns))]
    named = zip(table.columns, numeric, metrics, strict=False)
    head = [Cell(str(column), number, unit=metric(name).unit if name else "") for column, number, name in named]

    def fitted(one: Cell, right: bool) -> Cell:
        # Words among numbers stay words, which may be broken into lines.
        return replace(one, number=right and (one.number or one.text == NOTHING))

    return Shown(head, [list(map(fitted, row, numeric)) for row in rows])


def mean(name: str, value: float, interval: tuple[float, float] | None, note: str = "") -> Cell:
    """A metric's value with its interval."""
    return Cell(format_metric(name, value), True, note, value, interval)


def _is_numeric(cells: Sequence[Cell]) -> bool:
    known = [cell.number for cell in cells if cell.text != NOTHING]
    return sum(known) * 2 > len(known) or not known


def cell(value: Any, name: str = "") -> Cell:
    """A value, of the metric `name`; None and numbers that do not exist are a dash, and a cell stays as it is."""
    if isinstance(value, Cell):
        return value
    if value is None or (isinstance(value, float) and value != value):
        return Cell(NOTHING, False)
    if isinstance(value, bool):
        return Cell("yes" if value else "no", False)
    if isinstance(value, int | float):
        return Cell(format_metric(name, value) if name else number(value), True, value=value)
    if isinstance(value, Mapping):
        return Cell(", ".join(f"{key} = {part}" for key, part in value.items()), False)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Cell(", ".join(cell(part, name).text for part in value), False)
    return Cell(str(value), False)


def number(value: float) -> str:
    """A plain number to four significant digits; tiny ones, such as p values, as a bound."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e9):
        return str(int(value))
    if 0 < abs(value) < 1e-4:
        return "< 0.0001" if value > 0 else f"{value:.2e}"
    return f"{value:.4g}"
