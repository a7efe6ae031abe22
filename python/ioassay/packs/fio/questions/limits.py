"""Whether responses are within the limits that somebody sets for them, such as etcd for the sync of its log.

A condition is within a limit, or beyond it, where the whole interval of its value is; else the data do not show it. A
value without an interval is compared as it is, and the sentence says that nothing is known of its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioassay.analysis.measurements.cells import Cell, cells, interval
from ioassay.errors import StudyError
from ioassay.metrics import LowerBound, metric
from ioassay.narrative.finding import Finding, Table, bounds
from ioassay.narrative.say import Quantity, Response, Say, say
from ioassay.stats.result import Interval, Undefined, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Limit, Study
from ioassay.units import parse_duration_s

WITHIN, BEYOND, UNDECIDED = "within", "beyond", "undecided"


@dataclass(frozen=True)
class Judged:
    """The value of one condition, against its limit in the unit of the metric."""

    response: str
    cell: Cell
    mean: float
    interval: Interval | Undefined
    limit: float
    of: str

    @property
    def outcome(self) -> str:
        low, high = self.mean, self.mean
        if isinstance(self.interval, Interval):
            low, high = self.interval.low, self.interval.high
        if metric(self.response).better == "higher":
            low, high = -high, -low
        if isinstance(self.mean, LowerBound):
            high = math.inf
        limit = self.limit if metric(self.response).better != "higher" else -self.limit
        return WITHIN if high <= limit else BEYOND if low > limit else UNDECIDED

    def statement(self, *, alone: bool) -> Say:
        known = isinstance(self.interval, Interval)
        return say(
            f"limits.{self.outcome}" if known else f"limits.{self.outcome}_alone",
            response=Response(self.response),
            value=Quantity(self.response, self.mean, self.interval),
            place="" if alone else f" of {self.cell.label}",
            limit=Quantity(self.response, self.limit),
            of=f"{self.of}'s" if self.of else "the limit of",
            side="below" if metric(self.response).better == "higher" else "above",
        )


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each limit; none of a response that was not measured."""
    limits = study.analysis.limits.items()
    return [_finding(study, judged) for one in limits if (judged := list(_judged(records, study, *one)))]


def _finding(study: Study, judged: Sequence[Judged]) -> Finding:
    response = judged[0].response
    table = Table.of(
        judged,
        ("condition", lambda row: row.cell.label),
        ("value", lambda row: row.mean, response),
        *bounds(lambda row: row.interval, response),
        ("limit", lambda row: row.limit, response),
        ("outcome", lambda row: row.outcome),
    )
    return Finding(
        title=study.title or study.name,
        response=response,
        statements=[one.statement(alone=len(judged) == 1) for one in judged],
        statistics={"points": plain([{**vars(one), "outcome": one.outcome, "cell": one.cell.label} for one in judged])},
        tables=[table],
        leads=True,
    )


def _judged(records: Dataset, study: Study, response: str, limit: Limit) -> Iterator[Judged]:
    for cell in cells(records, study, response).cells:
        known = interval(response, cell, study.analysis.confidence)
        yield Judged(response, cell, cell.mean, known, _number(response, limit, study), limit.of)


def _number(response: str, limit: Limit, study: Study) -> float:
    """The limit in the unit of its metric; a time is written with its unit."""
    try:
        return parse_duration_s(limit.most) * 1e9 if metric(response).unit == "ns" else float(limit.most)
    except ValueError as error:
        raise StudyError(str(error), source=study.name, key=f"analysis.limits.{response}") from None
