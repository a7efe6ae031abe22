"""A finding: a sentence in plain English, the numbers under it, and its caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from ioassay.metrics import format_metric
from ioassay.records.record import Scalar


@dataclass(frozen=True)
class Table:
    """A small table: `rows` hold numbers, strings or None, one list a row, in the order of `columns`.

    `metrics[i]` names the metric that formats column i ('' for none).
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    metrics: Sequence[str] = ()
    observed: bool = False
    """Numbers that were counted or measured, from which nothing is concluded: they stay where a finding is withheld."""

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers as their metrics are written."""
        names = [*self.metrics, *[""] * (len(self.columns) - len(self.metrics))]
        head = "".join(f"<th>{escape(str(column))}</th>" for column in self.columns)
        rows = [
            "".join(f"<td>{escape(_text(value, name))}</td>" for value, name in zip(row, names, strict=False))
            for row in self.rows
        ]
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _text(value: object, metric: str) -> str:
    if value is None:
        return ""
    if metric and isinstance(value, int | float) and not isinstance(value, bool):
        return format_metric(metric, value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Finding:
    """One answer to one question about one response of one study.

    question: a key of ANALYSES; response: a metric name ('' when it is about the study as a whole);
    where: the factor levels that it is restricted to; statement: one or two sentences for a reader without
    statistics; statistics: JSON-able numbers under stable names; caveats: sentences; severity: 'info', 'warning'.
    """

    study: str
    question: str
    response: str
    title: str
    statement: str
    where: Mapping[str, Scalar] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    caveats: Sequence[str] = ()
    severity: str = "info"
    concludes: bool = False
    """It is withheld where the machine was not fit, though other answers to its question are not."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        return {name: value for name, value in asdict(self).items() if name != "concludes"}

    def _repr_html_(self) -> str:
        """What a notebook shows; all text is escaped, since names come from files."""
        caveats = "".join(f"<li>{escape(caveat)}</li>" for caveat in self.caveats)
        body = f"<p><strong>{escape(self.title)}</strong><br>{escape(self.statement)}</p>"
        return body + (f"<ul>{caveats}</ul>" if caveats else "") + "".join(table._repr_html_() for table in self.tables)
