"""What changes a database's loads? Each factor of two levels, over all loads at once, in one sentence.

Rates of the second level over those of the first: least squares of their logarithms over all factors, with the pass as
a block, since a busy machine slows whole passes. What is called a difference is one where p, adjusted for all loads
and factors together (Holm), is below the study's risk. Factors of more levels, and what depends on what, are the
business of `effect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.effects import response_shape
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.factors import factor_label, level_key, level_phrase, level_text
from ioassay.narrative import phrases
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
        """Whether it can be told from chance."""
        return self.p < self.risk

    def row(self) -> list[Any]:
        """Factor, levels, load, ratio, its interval, p."""
        first, second = (level_text(self.factor, level) for level in self.levels)
        low, high = (float(f"{end:.3g}") for end in (self.ratio.interval.low, self.ratio.interval.high))
        shown = [float(f"{self.ratio.ratio:.3g}"), low, high, float(f"{self.p:.2g}")]
        return [factor_label(self.factor), f"{second} over {first}", self.load, *shown]


COLUMNS = ("factor", "levels", "load", "ratio of the rates", "95 % low", "high", "p, adjusted")


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


def sentences(found: Sequence[Change]) -> list[str]:
    """One for each factor."""
    factors = dict.fromkeys(one.factor for one in found)
    return [_sentence([one for one in found if one.factor == factor]) for factor in factors]


def _sentence(own: Sequence[Change]) -> str:
    factor, (first, second) = own[0].factor, own[0].levels
    real = [one for one in own if one.is_real]
    levels = [level_phrase(factor, level) for level in (second, first)]
    if not real:
        told = phrases.listed([one.load for one in own], most=len(own))
        return f"Between {levels[1]} and {levels[0]} no difference can be seen in the rates of {told}."
    parts = [f"{one.load} {phrases.ratio(one.ratio.ratio, one.ratio.interval)}" for one in real]
    same = [one.load for one in own if not one.is_real]
    rest = f"; no difference can be seen in {phrases.listed(same, most=len(same))}" if same else ""
    told = phrases.listed(parts, most=len(parts))
    return f"Rates with {levels[0]}, as multiples of those with {levels[1]}: {told}{rest}."
