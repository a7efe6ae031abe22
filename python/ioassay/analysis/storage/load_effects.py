"""What changes a database's loads? Each factor of two levels, over all loads at once.

Rates of the second level over those of the first: least squares of their logarithms over all factors, with the pass as
a block, since a busy machine slows whole passes. A difference is one where p, adjusted for all loads and factors
together (Holm), is below the study's risk. Factors of more levels and interactions are in `effect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.effects import response_shape
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats import distributions
from ioassay.stats.factorial import Factorial, factorial
from ioassay.stats.posthoc import holm
from ioassay.stats.ratio_of_means import Ratio, ratio_interval
from ioassay.stats.result import Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class Change:
    """What one factor does to one load; `p` is adjusted."""

    factor: str
    levels: tuple[Scalar, Scalar]
    load: str
    ratio: Ratio
    p: float
    risk: float

    @property
    def is_real(self) -> bool:
        """True if it exceeds chance."""
        return self.p < self.risk


def changes(records: Dataset, study: Study, names: Sequence[str]) -> list[Change]:
    """Of each factor with two levels each load, in that order; none without repetitions."""
    found: list[tuple[str, tuple[Scalar, Scalar], str, Ratio]] = []
    confidence = study.analysis.confidence
    parts = {name: cells(records, study, f"{name}.ops_rate") for name in names}
    for factor in study.levels:
        for name, part in parts.items():
            levels = part.factors.get(factor, ())
            if len(levels) == 2 and isinstance(ratio := _ratio(part, factor, confidence), Ratio):
                found.append((factor, (levels[0], levels[1]), name, ratio))
    adjusted = holm([one[3].p for one in found]) if found else []
    return [Change(*one, p, 1 - confidence) for one, p in zip(found, adjusted, strict=True)]


def _ratio(part: Cells, factor: str, confidence: float) -> Ratio | Undefined:
    """By all conditions together where they are complete; else by the pairs that there are."""
    values = np.concatenate(part.groups)
    sizes = {group.size for group in part.groups}
    even = len(sizes) == 1 and min(sizes) > 1 and values.min() > 0
    fitted = _fitted(part, values) if even else None
    if fitted is None or fitted.ms_residual <= 0:
        return response_shape.average_change(part, factor, confidence)
    keys = np.array(part.column(factor))
    first, second = (np.log(values[keys == level_key(factor, level)]).mean() for level in part.factors[factor])
    # Half of the values are on either side.
    change, error = float(second - first), float(np.sqrt(4 * fitted.ms_residual / values.size))
    p = float(2 * distributions.t_sf(abs(change) / error, fitted.df_residual))
    interval = ratio_interval(change, error, fitted.df_residual, confidence)
    return Ratio(float(np.exp(change)), interval, error, fitted.df_residual, p)


def _fitted(part: Cells, values: Any) -> Factorial | None:
    """All factors without their interactions, over the logarithms; None where conditions are missing."""
    names = part.varying()
    if len(part.cells) != np.prod([len(part.factors[name]) for name in names]):
        return None
    columns = {name: part.column(name) for name in names}
    passes = [int(number) for cell in part.cells for number in cell.repetition]
    found = factorial(np.log(values), columns, block=passes, interactions=False)
    return found if isinstance(found, Factorial) else None
