"""The rows that a person wants to see first: each condition's value with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.narrative import phrases
from ioassay.stats.result import Interval, mean_of
from ioassay.stats.sample import moments, t_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


def headline(records: Dataset, studies: Sequence[Study]) -> list[dict[str, Any]]:
    """One row for each study, condition and response, conditions outermost.

    Keys: study, workload (the condition in words), point, metric, unit, mean (of a percentile that of all requests),
    median (of the repetitions), ci95 ([low, high], Student's, always 95 %, cut at 0; None for one repetition),
    repetitions.
    """
    return [row for study in studies for row in _rows(records, study)]


def _rows(records: Dataset, study: Study) -> list[dict[str, Any]]:
    found = [cells(records, study, response) for response in records.responses(study)]
    rows = [(cell, _row(part, cell)) for part in found for cell in part.cells]
    design = study.design
    return [row for _, row in sorted(rows, key=lambda item: design.place(item[0].point))]


def _row(found: Cells, cell: Cell) -> dict[str, Any]:
    interval = t_interval(cell.values, 0.95)
    return {
        "study": found.study,
        "workload": cell.label,
        "point": dict(cell.point),
        "metric": found.response,
        "unit": metrics.metric(found.response).unit,
        "mean": mean_of(cell.values),
        "median": moments(cell.measured).median,
        "ci95": [phrases.lowest(found.response, interval.low), interval.high]
        if isinstance(interval, Interval)
        else None,
        "repetitions": int(cell.values.size),
    }
