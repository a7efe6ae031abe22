"""Does the response follow a straight line over the factor, or over its logarithm? Repetitions are the points.

Two lines are fitted where a factor is numeric: over x and, where all levels are positive, over log2 x, whose slope
is the change per doubling. Neither is a law: the lack-of-fit test says whether the level means leave the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.factors import level_numbers
from ioassay.stats.least_squares import LackOfFit, Line, fit_line, lack_of_fit
from ioassay.stats.result import Floats, Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LINEAR, LOGARITHMIC = "linear", "log2"
CLEARLY_BETTER = 2.0
"""Difference in AIC below which both models stay credible: Burnham and Anderson, "Model Selection" (2002), 2.6."""


class Outcome(Enum):
    """What the preferred model shows."""

    NO_SLOPE = "no slope"
    STRAIGHT = "straight"
    CURVED = "curved"
    """There is a slope, but the level means leave the line."""


@dataclass(frozen=True)
class Model:
    """One line over `kind` of x (LINEAR or LOGARITHMIC), with the test of its shape."""

    kind: str
    line: Line
    lack: LackOfFit | Undefined

    def fits(self, confidence: float) -> bool:
        """Return False where the means leave the line by more than repetitions scatter."""
        return not isinstance(self.lack, LackOfFit) or self.lack.p >= 1 - confidence


@dataclass(frozen=True)
class Regression:
    """Both models of one factor where all others are fixed. `better` is a kind, or '' when AIC cannot tell."""

    factor: str
    cells: Cells
    models: tuple[Model, ...]
    better: str
    confidence: float

    @property
    def preferred(self) -> Model:
        """The better model; the linear one when neither is."""
        return next((model for model in self.models if model.kind == self.better), self.models[0])

    @property
    def outcome(self) -> Outcome:
        """What the preferred model shows at this confidence."""
        if self.preferred.line.p >= 1 - self.confidence:
            return Outcome.NO_SLOPE
        return Outcome.STRAIGHT if self.preferred.fits(self.confidence) else Outcome.CURVED


def analyse(records: Dataset, study: Study) -> list[Regression]:
    """One for each response, numeric factor of three levels or more, and combination of the other factors."""
    fitted = []
    for response in records.responses(study):
        measured = cells(records, study, response)
        for factor in measured.varying():
            fitted += [fit(part, factor, study.analysis.confidence) for part in measured.slices(factor)]
    return [regression for regression in fitted if regression is not None]


def points(found: Cells, factor: str) -> tuple[Floats, Floats] | None:
    """x and y of every repetition, shape (n,) both; None where a level is a word or fewer than three levels exist."""
    known = level_numbers(factor, [cell.point[factor] for cell in found.cells])
    if known is None or len(set(known)) < 3:
        return None
    x = np.repeat(np.array(known), [cell.measured.size for cell in found.cells])
    return x, np.concatenate([cell.measured for cell in found.cells])


def fit(found: Cells, factor: str, confidence: float) -> Regression | None:
    """Both models of one factor; None where it is not numeric."""
    pairs = points(found, factor)
    if pairs is None:
        return None
    x, y = pairs
    kinds = {LINEAR: x, **({LOGARITHMIC: np.log2(x)} if x.min() > 0 else {})}
    models = []
    for kind, regressor in kinds.items():
        line = fit_line(regressor, y, confidence)
        if isinstance(line, Line):
            models.append(Model(kind, line, lack_of_fit(regressor, y, line)))
    return Regression(factor, found, tuple(models), _better(models), confidence) if models else None


def _better(models: list[Model]) -> str:
    exact = [model.kind for model in models if model.line.aic is None]
    if len(models) == 1 or exact:
        return (exact or [models[0].kind])[0]
    first, second = sorted(models, key=lambda model: model.line.aic or 0.0)
    return first.kind if (second.line.aic or 0.0) - (first.line.aic or 0.0) >= CLEARLY_BETTER else ""
