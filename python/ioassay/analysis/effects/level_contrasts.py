"""The levels of one factor against each other: what all questions about them read from one fitted model.

The model is of all conditions of a response (`stats/condition_means.py`); each place, where only this factor varies,
has a family of contrasts, and the places of a factor share the risk. Nothing is claimed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ioassay import metrics
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.measurements.memo import memoized
from ioassay.factors import HOST, level_axis_numbers
from ioassay.stats.best_level import best_place
from ioassay.stats.condition_means import Scale, fit
from ioassay.stats.contrasts import Contrasts, Pair, Slope, slope
from ioassay.stats.result import Undefined, as_floats, mean_of
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LINEAR, LOGARITHMIC = "linear", "log2"
FEWEST_FOR_LINES = 3


@dataclass(frozen=True)
class LevelFamily:
    """One factor where all others are fixed; `cells` ascend where their levels are `numbers`.

    `lines`: the slopes over the numbers and, where all are positive, over their logarithm to base 2.
    """

    factor: str
    part: Cells
    cells: tuple[Cell, ...]
    numbers: tuple[float, ...] | None
    contrasts: Contrasts | Undefined
    lines: Mapping[str, Slope] = field(default_factory=dict)

    @property
    def lower(self) -> bool:
        """True if small values are best."""
        return lower_is_better(self.part.response)


@dataclass(frozen=True)
class Extremes:
    """`best` and `worst` by mean, in the response's better direction (higher where it has none).

    `ratio`: larger mean divided by the smaller; `pair` that with its interval and p; None where unknown.
    """

    best: Cell
    worst: Cell
    ratio: float | None
    pair: Pair | None


def lower_is_better(response: str) -> bool:
    """Whether small values of the response are good."""
    return metrics.metric(response).better == "lower"


@memoized
def families(records: Dataset, study: Study, response: str) -> dict[str, list[LevelFamily]]:
    """Factor -> its family in each place where it varies; factors that vary nowhere are left out.

    The hosts that measure are places: how they differ is a question of its own (`hosts`).
    """
    found, exact = cells(records, study, response), not records.is_measured(study)
    factors = [factor for factor in found.varying() if factor != HOST]
    each = {factor: level_families(found, factor, study.analysis.confidence, exact=exact) for factor in factors}
    return {factor: group for factor, group in each.items() if group}


def level_families(found: Cells, factor: str, confidence: float, *, exact: bool = False) -> list[LevelFamily]:
    """A family for each place of `found` where `factor` has two levels or more."""
    slices = [part for part in found.slices(factor) if len(part.cells) > 1]
    model = fit(found.groups, [cell.repetition for cell in found.cells], exact=exact)
    places = {id(cell): place for place, cell in enumerate(found.cells)}
    made = []
    for part in slices:
        ordered, numbers = ascending(part, factor)
        kinds = regressors(numbers)
        if isinstance(model, Undefined):
            made.append(LevelFamily(factor, part, ordered, numbers, model))
            continue
        means = model.part([places[id(cell)] for cell in ordered])
        contrasts = Contrasts(means, confidence, share=len(slices), lines=len(kinds))
        lines = {kind: slope(contrasts, x) for kind, x in kinds.items()}
        made.append(LevelFamily(factor, part, ordered, numbers, contrasts, lines))
    return made


def regressors(numbers: tuple[float, ...] | None) -> dict[str, tuple[float, ...]]:
    """What lines are fitted over; none for words and fewer than three numbers."""
    if numbers is None or len(numbers) < FEWEST_FOR_LINES:
        return {}
    kinds = {LINEAR: numbers}
    if min(numbers) > 0:
        kinds[LOGARITHMIC] = tuple(float(number) for number in np.log2(numbers))
    return kinds


def ascending(part: Cells, factor: str) -> tuple[tuple[Cell, ...], tuple[float, ...] | None]:
    """By the numbers behind the levels, whatever the order in which the study lists them; words as listed."""
    known = level_axis_numbers(factor, [cell.point[factor] for cell in part.cells])
    if known is None:
        return part.cells, None
    pairs = sorted(zip(known, part.cells, strict=True), key=lambda pair: pair[0])
    return tuple(cell for _, cell in pairs), tuple(number for number, _ in pairs)


def extremes(family: LevelFamily) -> Extremes:
    """Best and worst of at least two conditions."""
    means = as_floats([mean_of(cell.values) for cell in family.cells])
    low, high = best_place(means, lower=True), best_place(means, lower=False)
    best, worst = (low, high) if family.lower else (high, low)
    ratio = float(means[high] / means[low]) if means[low] > 0 else None
    known = isinstance(family.contrasts, Contrasts) and family.contrasts.means.scale == Scale.LOG
    pair = family.contrasts.pair(high, low) if known and isinstance(family.contrasts, Contrasts) else None
    return Extremes(family.cells[best], family.cells[worst], ratio, pair)
