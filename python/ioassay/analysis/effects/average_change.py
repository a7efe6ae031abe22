"""The second level of a factor against the first, averaged over all places that have both.

Read from the one model of the response (`stats/condition_means.py`): a difference by its interval, no difference only
by equivalence. Changes that are read together share the risk.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioassay.analysis.effects.one_factor import Outcome, pair_outcome
from ioassay.analysis.measurements.cells import Cells
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import Scale, average, fit
from ioassay.stats.contrasts import Contrasts, Ratio, repetitions_needed
from ioassay.stats.result import Undefined


@dataclass(frozen=True)
class AverageChange:
    """`contrasts` are of the two averages, in the order of `levels`."""

    cells: Cells
    factor: str
    levels: tuple[Scalar, Scalar]
    contrasts: Contrasts

    @property
    def ratio(self) -> Ratio:
        """The second average divided by the first."""
        return self.contrasts.ratio(1, 0)

    @property
    def outcome(self) -> Outcome:
        """Equivalence, a difference, or neither."""
        return pair_outcome(self.contrasts, 1, 0)

    @property
    def needed(self) -> int | None:
        """Repetitions that would show a difference of the margin; None of exact results."""
        return None if self.contrasts.means.exact else repetitions_needed(self.contrasts)


def average_change(
    found: Cells,
    factor: str,
    levels: tuple[Scalar, Scalar],
    confidence: float,
    *,
    share: int = 1,
    exact: bool = False,
) -> AverageChange | Undefined:
    """Two levels of a factor; `share` changes share the risk."""
    model = fit(found.groups, [cell.repetition for cell in found.cells], exact=exact)
    if isinstance(model, Undefined):
        return model
    if model.scale != Scale.LOG:
        return Undefined("a mean is not above 0, so there is no ratio")
    keys = [level_key(factor, one) for one in levels]
    index = {id(cell): place for place, cell in enumerate(found.cells)}
    parts = [
        {level_key(factor, cell.point[factor]): index[id(cell)] for cell in part.cells} for part in found.slices(factor)
    ]
    both = [part for part in parts if all(key in part for key in keys)]
    if not both:
        return Undefined("no pair of conditions has values")
    means = average(model, [[place[key] for place in both] for key in keys])
    return AverageChange(found, factor, levels, Contrasts(means, confidence, share=share))
