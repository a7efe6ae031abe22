"""Sentences about regressions: the slope with its interval, and what the test of the shape says about the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.effects.level_contrasts import LINEAR, LOGARITHMIC
from ioassay.analysis.effects.regression import Model, Outcome, Regression
from ioassay.factors import factor_label, level_reading, step_label
from ioassay.narrative import omissions, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.least_squares import LackOfFit
from ioassay.stats.result import plain

STATEMENTS = {
    Outcome.NO_SLOPE: ("The data do not show whether {noun} rises or falls with {factor} ({p}): {slope}.", ""),
    Outcome.TURNS: ("{name} rises and falls over {factor}: no straight line describes it.", ""),
    Outcome.STRAIGHT: ("{name} {way} with {over}: {slope}, R² = {r2:.3f}.", ""),
    Outcome.CURVED: (
        "{name} {way} with {over}: {slope}, R² = {r2:.3f}.",
        " The line shows the direction only: the level means deviate from it by more than the repetitions scatter.",
    ),
}
NO_LOGARITHM = "A level of {factor} is 0, so there is no logarithmic model."
EQUAL_MODELS = "The linear and the logarithmic model fit equally well (AIC differs by less than 2)."
BAD_MODELS = "Neither model has the shape of the data (lack-of-fit test). Read the level means, not the line."

_STEPS = {
    "size": (1024.0, "per KiB"),
    "duration": (1.0, "per second"),
    "percent": (1.0, "per percentage point"),
    "rate": (1e6, "per MB/s"),
}
"""The unit of a slope by the kind of the levels: sizes by the KiB, since nobody chooses them by the byte."""


def findings(answers: Sequence[Regression]) -> list[Finding]:
    """One finding for each regression."""
    return [_finding(regression) for regression in answers]


def _finding(regression: Regression) -> Finding:
    cells = regression.cells
    return Finding(
        study=cells.study,
        question="regression",
        response=cells.response,
        title=f"{phrases.name(cells.response)}: regression on {factor_label(regression.factor)}",
        statements=_statement(regression),
        where=cells.where(),
        statistics={
            "factor": regression.factor,
            **{model.kind: {**plain(model.line), "lack_of_fit": plain(model.lack)} for model in regression.models},
            "better": regression.better,
            "outcome": regression.outcome.value,
        },
        tables=[_table(regression)],
        caveats=[*omissions.left_out(cells), *_caveats(regression)],
    )


def _statement(regression: Regression) -> str:
    model, factor = regression.preferred, phrases.factor_noun(regression.factor)
    sentence, reservation = STATEMENTS[regression.outcome]
    sentence = sentence.format(
        name=phrases.subject(regression.cells.response),
        noun=phrases.noun(regression.cells.response),
        factor=factor,
        way="rises" if model.line.slope > 0 else "falls",
        over=f"the logarithm of {factor}" if model.kind == LOGARITHMIC else factor,
        slope=slope(regression),
        r2=model.line.r2,
        p=phrases.p(model.line.p),
    )
    return phrases.placed(regression.cells.where(), sentence) + reservation


def slope(regression: Regression) -> str:
    """That of the preferred model: `+12.1 MB/s per doubling of block size (95 % interval +11.8 to +12.4 MB/s)`."""
    model = regression.preferred
    interval, (step, per) = model.line.slope_interval, _step(regression, model)
    shown = [
        f"{'−' if number < 0 else '+'}{phrases.value(regression.cells.response, abs(step * number))}"
        for number in (model.line.slope, interval.low, interval.high)
    ]
    return f"{shown[0]} {per} ({phrases.level(interval.confidence)} interval {phrases.joined(shown[1], shown[2])})"


def _step(regression: Regression, model: Model) -> tuple[float, str]:
    """How much of the factor a slope is given for, and the words for it."""
    if model.kind == LOGARITHMIC:
        return 1.0, f"per doubling of {factor_label(regression.factor)}"
    kind = level_reading(regression.factor, [cell.point[regression.factor] for cell in regression.cells.cells])
    return _STEPS.get(kind or "", (1.0, f"per {step_label(regression.factor)}"))


def _table(regression: Regression) -> Table:
    level, unit = phrases.level(regression.confidence), regression.cells.response
    columns = ["model", "slope", f"slope {level}, low", "high", "intercept", "R²", "p", "lack of fit p", "AIC"]
    rows: list[list[Any]] = []
    for model in regression.models:
        line, lack = model.line, model.lack.p if isinstance(model.lack, LackOfFit) else None
        bounds = line.slope_interval
        rows.append([model.kind, line.slope, bounds.low, bounds.high, line.intercept, line.r2, line.p, lack, line.aic])
    return Table(columns, rows, ["", "", "", "", unit, "", "", "", ""])


def _caveats(regression: Regression) -> list[str]:
    caveats: list[str] = []
    if regression.turns:
        return caveats
    if [model.kind for model in regression.models] == [LINEAR]:
        caveats.append(NO_LOGARITHM.format(factor=regression.factor))
    elif not regression.better:
        caveats.append(EQUAL_MODELS)
    if not any(model.fits(regression.confidence) for model in regression.models):
        caveats.append(BAD_MODELS)
    return caveats
