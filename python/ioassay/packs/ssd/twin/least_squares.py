"""Gauss-Newton on logarithms of statistics, with weak priors: halved steps, and outliers bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Term:
    """A continuous parameter: the prior of its logarithm, or of itself where it may be 0."""

    name: str
    unit: str
    centre: float
    spread: float
    is_linear: bool = False
    scale: float = 1.0
    """Of one that is linear: its value where the coordinate is 1."""

    def value(self, coordinate: float) -> float:
        return max(float(coordinate), 0.0) * self.scale if self.is_linear else math.exp(coordinate)


Z_90 = 1.645
_WIDENED = 1.5
"""Of the curvature's intervals: on hidden drives, they cover too little by themselves."""
_TOLD = 0.35
"""Relative half-width of an interval up to which a parameter counts as identified."""


def interval(term: Term, middle: float, error: float, scatter: float = 1.0) -> tuple[float, float, float]:
    """Value and bounds of a 90 % interval: no wider than what is assumed of drives in any case.

    `error` is that of the coordinate by the curvature, `scatter` the root mean square of the scaled residuals.
    """
    width = min(Z_90 * _WIDENED * max(1.0, scatter) * error, Z_90 * term.spread)
    return term.value(middle), term.value(middle - width), term.value(middle + width)


def error_of(low: float | None, high: float | None) -> float:
    """Of a logarithm, that has this interval."""
    return math.log(high / low) / 2 / Z_90 if low and high else 1.0


def is_told(term: Term, value: float, low: float, high: float) -> bool:
    return (high - low) / 2 < (term.scale if term.is_linear else _TOLD * value)


Residuals = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray] | None]
"""Coordinates of the terms -> log of model over measurement and its standard errors, shapes (statistics,); None where
nothing can have these coordinates."""


def minimise(
    residuals: Residuals,
    start: np.ndarray,
    terms: Sequence[Term],
    steps: int,
    *,
    final: bool = False,
    only: Collection[int] = (),
) -> tuple[np.ndarray, float, np.ndarray | None]:
    """Coordinates, sum of squares with that of the priors, and with `final` the covariance.

    Only the columns in `only` move, or all. The sum is infinite where the residuals cannot be had.
    """
    prior = np.array([term.centre for term in terms])
    weights = np.array([1 / term.spread for term in terms])
    lower = np.array([0.0 if term.is_linear else -np.inf for term in terms])
    moving = np.array([not only or column in only for column in range(len(terms))])

    def squares(at: np.ndarray, errors: np.ndarray | None) -> tuple[float, np.ndarray, np.ndarray]:
        found = residuals(at)
        if found is None:
            return math.inf, np.zeros(0), np.zeros(0)
        residual, own = found
        errors = own if errors is None else errors
        return float((_bounded(residual / errors) ** 2).sum() + (((at - prior) * weights) ** 2).sum()), residual, errors

    at = start
    value, residual, errors = squares(at, None)
    if not math.isfinite(value):
        return at, math.inf, None
    covariance = None
    for step in range(steps + final):
        jacobian = np.zeros((len(residual), len(terms)))
        for column in map(int, np.flatnonzero(moving)):
            width = 0.1 if terms[column].is_linear else 0.03
            moved = at.copy()
            moved[column] += width
            other = squares(moved, errors)
            if not math.isfinite(other[0]):
                return at, math.inf, None
            jacobian[:, column] = (other[1] - residual) / width
        robust = 1 / np.sqrt(1 + np.maximum(np.abs(residual / errors) / 4 - 1, 0))
        scaled = jacobian * (robust / errors)[:, None]
        covariance = np.linalg.inv(scaled.T @ scaled + np.diag(weights**2))
        if step == steps:
            break
        gradient = scaled.T @ (residual * robust / errors) + (at - prior) * weights**2
        change = np.clip(-covariance @ (gradient * moving if only else gradient), -0.7, 0.7)
        before = value
        for _ in range(4):
            tried = np.maximum(at + change, lower)
            after = squares(tried, errors)
            if after[0] < value:
                at, (value, residual, _) = tried, after
                break
            change = change / 2
        if before - value < 0.3 and not final:
            break
    value, _, _ = squares(at, None)
    return at, value, covariance


def _bounded(scaled: np.ndarray) -> np.ndarray:
    """Linear beyond four standard errors, so that a few loads of another kind do not bend the rest."""
    size = np.abs(scaled)
    bounded: np.ndarray = np.where(size > 4, np.sqrt(np.maximum(8 * size - 16, 16)), size) * np.sign(scaled)
    return bounded
