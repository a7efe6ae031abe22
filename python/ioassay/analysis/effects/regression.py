"""Does the response follow a straight line over the factor, or over its logarithm? Repetitions are the points.

Two lines are fitted where a factor is numeric: over x and, where all levels are positive, over log2 x, whose slope
is the change per doubling. Neither is a law: the lack-of-fit test says whether the level means leave the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.factors import factor_label, level_numbers, level_reading, step_label
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.least_squares import LackOfFit, Line, fit_line, lack_of_fit
from ioassay.stats.result import Floats, Undefined, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LINEAR, LOGARITHMIC = "linear", "log2"
CLEARLY_BETTER = 2.0
"""Difference in AIC below which both models stay credible: Burnham and Anderson, "Model Selection" (2002), 2.6."""

_STEPS = {
    "size": (1024.0, "per KiB"),
    "duration": (1.0, "per second"),
    "percent": (1.0, "per percentage point"),
    "rate": (1e6, "per MB/s"),
}
"""What a slope is told per, by the kind of the levels: sizes by the KiB, which nobody chooses by the byte."""


@dataclass(frozen=True)
class Model:
    """One line over `kind` of x (LINEAR or LOGARITHMIC), with the test of its shape."""

    kind: str
    line: Line
    lack: LackOfFit | Undefined


@dataclass(frozen=True)
class Regression:
    """Both models of one factor where all others are fixed. `better` is a kind, or '' when AIC cannot tell."""

    factor: str
    cells: Cells
    models: tuple[Model, ...]
    better: str

    @property
    def preferred(self) -> Model:
        """The better model; the linear one when neither is."""
        return next((model for model in self.models if model.kind == self.better), self.models[0])


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each response, numeric factor of three levels or more, and combination of the other factors."""
    confidence = study.analysis.confidence
    findings = []
    for response in records.responses(study):
        found = cells(records, study, response)
        for factor in found.varying():
            fitted = [fit(part, factor, confidence) for part in found.slices(factor)]
            findings += [_finding(one, confidence) for one in fitted if one is not None]
    return findings


def points(found: Cells, factor: str) -> tuple[Floats, Floats] | None:
    """x and y of every repetition, shape (n,) both; None where a level is a word or fewer than three levels exist."""
    known = level_numbers(factor, [cell.point[factor] for cell in found.cells])
    if known is None or len(set(known)) < 3:
        return None
    x = np.repeat(np.array(known), [cell.values.size for cell in found.cells])
    return x, np.concatenate(found.groups)


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
    return Regression(factor, found, tuple(models), _better(models)) if models else None


def _better(models: list[Model]) -> str:
    exact = [model.kind for model in models if model.line.aic is None]
    if len(models) == 1 or exact:
        return (exact or [models[0].kind])[0]
    first, second = sorted(models, key=lambda model: model.line.aic or 0.0)
    return first.kind if (second.line.aic or 0.0) - (first.line.aic or 0.0) >= CLEARLY_BETTER else ""


def _finding(one: Regression, confidence: float) -> Finding:
    response = one.cells.response
    return Finding(
        study=one.cells.study,
        question="regression",
        response=response,
        title=f"{phrases.name(response)}: regression on {factor_label(one.factor)}",
        statement=_statement(one, 1 - confidence),
        where=one.cells.where(),
        statistics={
            "factor": one.factor,
            **{model.kind: {**plain(model.line), "lack_of_fit": plain(model.lack)} for model in one.models},
            "better": one.better,
        },
        tables=[_table(one, confidence)],
        caveats=[*one.cells.caveats(), *_caveats(one, 1 - confidence)],
    )


def slope_text(one: Regression, model: Model) -> str:
    """`+12.1 MB/s per doubling (95 % interval +11.8 to +12.4 MB/s)`."""
    interval = model.line.slope_interval
    step, per = (1.0, f"per doubling of {factor_label(one.factor)}") if model.kind == LOGARITHMIC else _step(one)
    shown = [_signed(one.cells.response, step * number) for number in (model.line.slope, interval.low, interval.high)]
    return f"{shown[0]} {per} ({phrases.level(interval.confidence)} interval {phrases.joined(shown[1], shown[2])})"


def _step(one: Regression) -> tuple[float, str]:
    """What a slope is told per, and how much of the factor that is."""
    kind = level_reading(one.factor, [cell.point[one.factor] for cell in one.cells.cells])
    return _STEPS.get(kind or "", (1.0, f"per {step_label(one.factor)}"))


def _signed(response: str, number: float) -> str:
    return f"{'−' if number < 0 else '+'}{phrases.value(response, abs(number))}"


def _statement(one: Regression, risk: float) -> str:
    model, where = one.preferred, one.cells.where()
    name, factor = phrases.name(one.cells.response), factor_label(one.factor)
    if model.line.p >= risk:
        told = f"{name} has no visible slope over {factor} ({phrases.p(model.line.p)}): {slope_text(one, model)}."
        return phrases.placed(where, told)
    way = "grows" if model.line.slope > 0 else "falls"
    over = f"the logarithm of {factor}" if model.kind == LOGARITHMIC else factor
    told = phrases.placed(where, f"{name} {way} with {over}: {slope_text(one, model)}, R² = {model.line.r2:.3f}.")
    if isinstance(model.lack, LackOfFit) and model.lack.p < risk:
        return f"{told} The line gives the direction only: the means leave it by more than repetitions scatter."
    return told


def _table(one: Regression, confidence: float) -> Table:
    level, unit = phrases.level(confidence), one.cells.response
    columns = ["model", "slope", f"slope {level}, low", "high", "intercept", "R²", "p", "lack of fit p", "AIC"]
    rows: list[list[Any]] = []
    for model in one.models:
        line = model.line
        rows.append(
            [model.kind, line.slope, line.slope_interval.low, line.slope_interval.high, line.intercept, line.r2, line.p]
        )
        rows[-1] += [model.lack.p if isinstance(model.lack, LackOfFit) else None, line.aic]
    return Table(columns, rows, ["", "", "", "", unit, "", "", "", ""])


def _caveats(one: Regression, risk: float) -> list[str]:
    said = []
    if len(one.models) == 1 and one.models[0].kind == LINEAR:
        said.append(f"A level of {one.factor} is 0, so there is no logarithmic model.")
    elif not one.better:
        said.append("The linear and the logarithmic model fit equally well (AIC differs by less than 2).")
    if all(isinstance(model.lack, LackOfFit) and model.lack.p < risk for model in one.models):
        said.append("Neither model has the shape of the data (lack-of-fit test): read the level means, not the line.")
    return said
