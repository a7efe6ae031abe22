"""A finding: a sentence in plain English, the numbers under it, and its caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ioassay.records.record import Scalar


@dataclass(frozen=True)
class Table:
    """A small table: `rows` hold numbers, strings or None, one list a row, in the order of `columns`.

    `metrics[i]` names the metric that formats column i ('' for none).
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    metrics: Sequence[str] = ()
    names_best: bool = False
    """It says which condition is best: a conclusion, which is withheld where the machine was not fit."""


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

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        return asdict(self)
