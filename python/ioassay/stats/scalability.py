"""How throughput grows with the number of workers: Amdahl's law and the universal scalability law, fitted.

Both are least squares of every repetition on the number of workers N, with the throughput of one worker as a free
parameter, because the measured one is as noisy as the others. A fit that means nothing is not shown: the reason is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

FEWEST_LEVELS = 4
_STEPS, _SETTLED = 500, 1e-12
LEAST_R2 = 0.8
USL, AMDAHL = "usl", "amdahl"


@dataclass(frozen=True)
class Law:
    """Throughput = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), gamma in the unit of the response.

    alpha: contention, the share of work that cannot run in parallel; beta: coherency, what workers cost each other
    pairwise (0 in Amdahl's law). `peak`: where throughput is highest, sqrt((1 - alpha) / beta), in workers; None where
    beta cannot be told from 0. `limit`: what throughput tends to with ever more workers in Amdahl's law.
    `lack_p`: do the level means leave the law by more than repetitions scatter? None without repetitions.
    `worst`: the largest deviation of a level's mean from the law, as a share of it.
    """

    kind: str
    gamma: float
    alpha: float
    beta: float
    gamma_interval: Interval
    alpha_interval: Interval
    beta_interval: Interval | None
    peak: float | None
    peak_interval: Interval | None
    limit: float | None
    r2: float
    lack_p: float | None
    worst: float
    n: int
    df: int

    def at(self, workers: float) -> float:
        """The throughput that the law gives."""
        return float(_throughput((self.gamma, self.alpha, self.beta), np.array([workers]))[0])


def usl(workers: Floats, throughput: Floats, confidence: float) -> Law | Undefined:
    """The universal scalability law: Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6.

    Both arguments have the shape (n,), a value a repetition. Intervals are Student's about the linearised fit (Seber
    and Wild, "Nonlinear Regression", 1989, 5.1), the peak's on the log scale by the delta method.
    """
    return _fit(workers, throughput, confidence, 3)


def amdahl(workers: Floats, throughput: Floats, confidence: float) -> Law | Undefined:
    """The same with beta = 0: Amdahl, "Validity of the single processor approach …" (AFIPS conference, 1967)."""
    return _fit(workers, throughput, confidence, 2)


def preferred(first: Law | Undefined | None, second: Law | Undefined | None) -> Law | None:
    """The universal law (`first`) where its beta is above 0 for sure, Amdahl's otherwise; None where neither fits."""
    if isinstance(first, Law) and first.beta_interval is not None and first.beta_interval.low > 0:
        return first
    return second if isinstance(second, Law) else None


def _fit(workers: Floats, throughput: Floats, confidence: float, free: int) -> Law | Undefined:
    x, y = as_floats(workers), as_floats(throughput)
    if (refused := _refusal(x, y, free)) is not None:
        return refused
    unit = float(np.abs(y).max())
    found = _solve(x, y / unit, free)
    if isinstance(found, Undefined):
        return found
    parameters, covariance, squares = found
    df, total = x.size - free, sum_of_squares(y / unit)
    r2 = 1 - squares / total if total else 1.0
    if r2 < LEAST_R2:
        return Undefined(f"the law leaves {(1 - r2) * 100:.0f} % of the variation unexplained")
    covariance = covariance * squares / df
    half = float(distributions.t_ppf((1 + confidence) / 2, df)) * np.sqrt(np.diag(covariance))
    bounds = [
        Interval(float(value - width), float(value + width), confidence, "linearised t")
        for value, width in zip(parameters, half, strict=True)
    ]
    gamma, alpha, beta = (*parameters, 0.0)[:3]
    if bounds[0].low <= 0:
        return Undefined("the throughput of one worker cannot be told from nothing: levels near 1 are missing")
    peak = _peak(parameters, covariance, bounds, df) if free == 3 else None
    return Law(
        kind=USL if free == 3 else AMDAHL,
        gamma=float(gamma) * unit,
        alpha=float(alpha),
        beta=float(beta),
        gamma_interval=bounds[0].scaled(unit),
        alpha_interval=bounds[1],
        beta_interval=bounds[2] if free == 3 else None,
        peak=peak[0] if peak else None,
        peak_interval=peak[1] if peak else None,
        limit=float(gamma / alpha) * unit if free == 2 and bounds[1].low > 0 else None,
        r2=float(r2),
        lack_p=_lack(x, y / unit, squares, free),
        worst=_worst(x, y / unit, (gamma, alpha, beta)),
        n=int(x.size),
        df=int(df),
    )


def _refusal(x: Floats, y: Floats, free: int) -> Undefined | None:
    levels = np.unique(x).size
    if x.min() <= 0 or y.min() <= 0:
        return Undefined("workers and throughput must be above 0")
    if levels < FEWEST_LEVELS:
        return Undefined(f"{levels} levels; a law needs at least {FEWEST_LEVELS}")
    if x.size <= free + 1:
        return Undefined(f"{x.size} values for {free} parameters; too few for their intervals")
    return None


def _throughput(parameters: Any, x: Floats) -> Floats:
    gamma, alpha, beta = (*parameters, 0.0)[:3]
    result: Floats = gamma * x / (1 + alpha * (x - 1) + beta * x * (x - 1))
    return result


def _jacobian(parameters: Any, x: Floats, free: int) -> Floats:
    gamma, alpha, beta = (*parameters, 0.0)[:3]
    divisor = 1 + alpha * (x - 1) + beta * x * (x - 1)
    columns = [x / divisor, -gamma * x * (x - 1) / divisor**2, -gamma * x**2 * (x - 1) / divisor**2]
    return np.column_stack(columns[:free])


def _solve(x: Floats, y: Floats, free: int) -> tuple[Floats, Floats, float] | Undefined:
    """Parameters, the inverse of their normal matrix, and the sum of squares."""

    def residual(parameters: Floats) -> Floats:
        return _throughput(parameters, x) - y

    def slopes(parameters: Floats) -> Floats:
        return _jacobian(parameters, x, free)

    parameters = _minimum(residual, slopes, _start(x, y, free))
    if parameters is None:
        return Undefined("the fit did not converge")
    _, alpha, beta = (*parameters, 0.0)[:3]
    every = np.linspace(x.min(), x.max(), 200)
    if (1 + alpha * (every - 1) + beta * every * (every - 1)).min() <= 0:
        return Undefined("throughput grows faster than the law can say")
    if free == 3 and beta < 0:
        return Undefined("workers cost each other nothing: the coherency would be negative")
    jacobian = slopes(parameters)
    sizes = np.linalg.norm(jacobian, axis=0)
    scaled = jacobian / sizes
    if np.linalg.cond(scaled) > 1e7:
        return Undefined("the levels do not tell the parameters apart")
    inverse = np.linalg.inv(scaled.T @ scaled) / np.outer(sizes, sizes)
    return parameters, inverse, float(np.sum((_throughput(parameters, x) - y) ** 2))


def _minimum(residual: Callable[[Floats], Floats], slopes: Callable[[Floats], Floats], start: Floats) -> Floats | None:
    """The least squares near `start`; None where they are not reached.

    D. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters" (Journal of the Society for
    Industrial and Applied Mathematics 11, 1963), with each parameter scaled by its column of slopes.
    """
    at, damping = start, 1e-3
    left = residual(at)
    squares = float(left @ left)
    for _ in range(_STEPS):
        jacobian = slopes(at)
        sizes = np.linalg.norm(jacobian, axis=0)
        if not (np.isfinite(sizes).all() and sizes.all() and math.isfinite(squares)):
            return None
        scaled = jacobian / sizes
        normal, downhill = scaled.T @ scaled, -(scaled.T @ left)
        while True:
            step = np.linalg.solve(normal + damping * np.eye(len(at)), downhill) / sizes
            there = residual(at + step)
            reached = float(there @ there)
            small = bool((np.abs(step) <= _SETTLED * (np.abs(at) + _SETTLED)).all())
            if reached <= squares or small:
                break
            damping *= 10
        gained = squares - reached
        if reached <= squares:
            at, left, squares, damping = at + step, there, reached, damping / 10
        if small or gained <= _SETTLED**2 * squares:
            return np.asarray(at, dtype=np.float64)
    return None


def _start(x: Floats, y: Floats, free: int) -> Floats:
    """From the law turned round, N / throughput, which is linear: least squares weighted by y² / N."""
    design = np.column_stack([np.ones_like(x), x - 1, x * (x - 1)][:free])
    weight = y**2 / x
    solved = np.linalg.lstsq(design * weight[:, None], x / y * weight, rcond=None)[0]
    if solved[0] <= 0:
        return np.array([float((y / x).max()), 0.05, 1e-4][:free])
    return np.array([1 / solved[0], *(solved[1:] / solved[0])])


def _peak(parameters: Floats, covariance: Floats, bounds: list[Interval], df: int) -> tuple[float, Interval] | None:
    _, alpha, beta = parameters
    if bounds[2].low <= 0 or alpha >= 1:
        return None
    place = float(np.sqrt((1 - alpha) / beta))
    slopes = np.array([0.0, -0.5 / (1 - alpha), -0.5 / beta])
    half = float(distributions.t_ppf((1 + bounds[2].confidence) / 2, df)) * float(np.sqrt(slopes @ covariance @ slopes))
    ends = float(place * np.exp(-half)), float(place * np.exp(half))
    return place, Interval(*ends, bounds[2].confidence, "delta, log scale")


def _lack(x: Floats, y: Floats, squares: float, free: int) -> float | None:
    """Lack of fit against the scatter of repetitions: Draper and Smith, "Applied Regression Analysis", 2.1."""
    groups = [y[x == level] for level in np.unique(x)]
    pure, freedom = sum(sum_of_squares(group) for group in groups), y.size - len(groups)
    more = len(groups) - free
    if freedom < 1 or more < 1:
        return None
    left = max(squares - pure, 0.0)
    if pure <= 0:
        return 1.0 if left <= 1e-12 else 0.0
    return float(distributions.f_sf(left / more / (pure / freedom), more, freedom))


def _worst(x: Floats, y: Floats, parameters: Any) -> float:
    levels = np.unique(x)
    said = _throughput(parameters, levels)
    means = np.array([mean_of(y[x == level]) for level in levels])
    return float(np.max(np.abs(means / said - 1)))
