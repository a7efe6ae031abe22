"""The rows that a person wants to see first: each condition's value with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell, Cells, cells, interval
from ioassay.records.record import Scalar
from ioassay.stats.result import Undefined, mean_of
from ioassay.stats.sample import moments
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class ConditionMean:
    """One response of one condition, in the metric's unit: its mean, of a percentile that of all its requests."""

    study: str
    workload: str
    """The condition in words."""
    point: Mapping[str, Scalar]
    metric: str
    unit: str
    mean: float
    median: float
    """Of the repetitions."""
    ci95: tuple[float, float] | None
    """Always of 95 %; None for one repetition."""
    repetitions: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def headline(records: Dataset, studies: Sequence[Study]) -> list[ConditionMean]:
    """One row for each study, condition and response, conditions outermost."""
    return [row for study in studies for row in _rows(records, study)]


def _rows(records: Dataset, study: Study) -> list[ConditionMean]:
    found = [cells(records, study, response) for response in records.responses(study)]
    rows = [_row(part, cell) for part in found for cell in part.cells]
    design = study.design
    return sorted(rows, key=lambda row: design.place(row.point))


def _row(found: Cells, cell: Cell) -> ConditionMean:
    found_interval = interval(found.response, cell)
    return ConditionMean(
        study=found.study,
        workload=cell.label,
        point=dict(cell.point),
        metric=found.response,
        unit=metrics.metric(found.response).unit,
        mean=mean_of(cell.values),
        median=moments(cell.measured).median,
        ci95=None if isinstance(found_interval, Undefined) else (found_interval.low, found_interval.high),
        repetitions=int(cell.values.size),
    )
