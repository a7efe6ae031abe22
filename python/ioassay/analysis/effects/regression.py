"""Does the response follow a straight line over the factor, or over its logarithm? Repetitions are the points.

Two lines are fitted where a factor is numeric: over x and, where all levels are positive, over log2 x, whose slope
is the change per doubling. The slope's interval is that of the factor's family of contrasts, whatever the conditions
scatter; without repetitions it is that of HC3. Neither line is a law: the lack-of-fit test says whether the level means
leave it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from ioassay.analysis.effects.level_contrasts import LevelFamily, regressors
from ioassay.analysis.measurements.cells import Cells
from ioassay.stats.contrasts import Contrasts
from ioassay.stats.least_squares import LackOfFit, Line, fit_line, hc3_slope, lack_of_fit
from ioassay.stats.result import Floats, Undefined

CLEARLY_BETTER = 2.0
"""Difference in AIC below which both models stay credible: Burnham and Anderson, "Model Selection" (2002), 2.6."""


class Outcome(Enum):
    """What the preferred model shows."""

    NO_SLOPE = "no slope"
    STRAIGHT = "straight"
    CURVED = "curved"
    """There is a slope, but the level means leave the line."""
    TURNS = "turns"
    """Some level is certainly above a later one, and some below: no line says what the response does."""


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
    turns: bool = False
    """A certain rise and a certain fall."""

    @property
    def preferred(self) -> Model:
        """The better model; the linear one when neither is."""
        return next((model for model in self.models if model.kind == self.better), self.models[0])

    @property
    def outcome(self) -> Outcome:
        """What the preferred model shows at this confidence."""
        if self.turns:
            return Outcome.TURNS
        bounds = self.preferred.line.slope_interval
        if bounds.low <= 0 <= bounds.high:
            return Outcome.NO_SLOPE
        return Outcome.STRAIGHT if self.preferred.fits(self.confidence) else Outcome.CURVED


def fit(family: LevelFamily, confidence: float) -> Regression | None:
    """Both models of one factor; None where it has no three numbers."""
    y = np.concatenate([cell.values for cell in family.cells])
    models = []
    for kind, numbers in regressors(family.numbers).items():
        x = np.repeat(np.array(numbers), [cell.values.size for cell in family.cells])
        line = fit_line(x, y, confidence)
        if isinstance(line, Line):
            models.append(Model(kind, _with_slope(family, kind, line, x, y, confidence), lack_of_fit(x, y, line)))
    if not models:
        return None
    found = family.contrasts
    turns = isinstance(found, Contrasts) and bool(found.rises.any() and found.falls.any())
    return Regression(family.factor, family.part, tuple(models), _better(models), confidence, turns)


def _with_slope(family: LevelFamily, kind: str, line: Line, x: Floats, y: Floats, confidence: float) -> Line:
    """The line with the error, interval and p of its slope under unequal scatter."""
    if kind in family.lines:
        known = family.lines[kind]
        return replace(line, slope_se=known.error, slope_interval=known.interval, p=known.p)
    error, interval, p = hc3_slope(x, y, line, confidence)
    return replace(line, slope_se=error, slope_interval=interval, p=p)


def _better(models: list[Model]) -> str:
    exact = [model.kind for model in models if model.line.aic is None]
    if len(models) == 1 or exact:
        return (exact or [models[0].kind])[0]
    first, second = sorted(models, key=lambda model: model.line.aic or 0.0)
    return first.kind if (second.line.aic or 0.0) - (first.line.aic or 0.0) >= CLEARLY_BETTER else ""
