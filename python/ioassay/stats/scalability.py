"""How a response grows with a load: Amdahl's law, the universal scalability law, and the knee of the curve.

The laws are least squares of every repetition on the number of workers N, with the throughput of one worker as a free
parameter, because the measured one is as noisy as the others. A fit that means nothing is not shown: the reason is.

The knee, where a response stops gaining as it did, is where two straight lines meet. It is not Kneedle's (Satopaa et
al., 2011), which finds a point on every curve, also on one that has no knee, and gives no interval. Two lines are
tested against one, and the place where they meet has a likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.linear_models import LackOfFit, lack_of_fit
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

FEWEST_LEVELS = 4
"""Of a law, and of a knee."""
_STEPS, _SETTLED = 500, 1e-12
LEAST_R2 = 0.8
USL, AMDAHL = "usl", "amdahl"
LINEAR, LOGARITHMIC = "linear", "log2"
_PLACES = 400
"""Where the lines of a knee may meet."""


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
        return float(_throughput((self.gamma, self.alpha, self.beta), np.array([workers]))[0])


def preferred(first: Law | Undefined | None, second: Law | Undefined | None) -> Law | None:
    """The universal law (`first`) where its beta is above 0 for sure, Amdahl's otherwise; None where neither fits."""
    if isinstance(first, Law) and first.beta_interval is not None and first.beta_interval.low > 0:
        return first
    return second if isinstance(second, Law) else None


def scaling_law(workers: Floats, throughput: Floats, confidence: float, kind: str) -> Law | Undefined:
    """USL: the universal scalability law (Gunther, "Guerrilla Capacity Planning", 2007, chapters 4 to 6). AMDAHL: the
    same with beta = 0 ("Validity of the single processor approach …", AFIPS conference, 1967).

    Both arguments have the shape (n,), a value a repetition. Intervals are Student's about the linearised fit (Seber
    and Wild, "Nonlinear Regression", 1989, 5.1), the peak's on the log scale by the delta method.
    """
    free = 3 if kind == USL else 2
    x, y = as_floats(workers), as_floats(throughput)
    levels = np.unique(x).size
    if x.min() <= 0 or y.min() <= 0:
        return Undefined("workers and throughput must be above 0")
    if levels < FEWEST_LEVELS:
        return Undefined(f"{levels} levels; a law needs at least {FEWEST_LEVELS}")
    if x.size <= free + 1:
        return Undefined(f"{x.size} values for {free} parameters; too few for their intervals")
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
    peak: float | None = None
    peak_interval: Interval | None = None
    if free == 3 and bounds[2].low > 0 and alpha < 1:
        peak = float(np.sqrt((1 - alpha) / beta))
        slopes = np.array([0.0, -0.5 / (1 - alpha), -0.5 / beta])
        reach = distributions.t_ppf((1 + confidence) / 2, df) * float(np.sqrt(slopes @ covariance @ slopes))
        ends = peak * math.exp(-reach), peak * math.exp(reach)
        peak_interval = Interval(*ends, confidence, "delta, log scale")
    lack, tested = lack_of_fit(x, y / unit, squares, free), x.size > levels > free
    means = np.array([mean_of(y[x == level] / unit) for level in np.unique(x)])
    return Law(
        kind=kind,
        gamma=float(gamma) * unit,
        alpha=float(alpha),
        beta=float(beta),
        gamma_interval=bounds[0].scaled(unit),
        alpha_interval=bounds[1],
        beta_interval=bounds[2] if free == 3 else None,
        peak=peak,
        peak_interval=peak_interval,
        limit=float(gamma / alpha) * unit if free == 2 and bounds[1].low > 0 else None,
        r2=float(r2),
        lack_p=lack.p if isinstance(lack, LackOfFit) else float(squares <= 1e-12) if tested else None,
        worst=float(np.max(np.abs(means / _throughput((gamma, alpha, beta), np.unique(x)) - 1))),
        n=int(x.size),
        df=int(df),
    )


def _throughput(parameters: Any, x: Floats) -> Floats:
    gamma, alpha, beta = (*parameters, 0.0)[:3]
    result: Floats = gamma * x / (1 + alpha * (x - 1) + beta * x * (x - 1))
    return result


def _solve(x: Floats, y: Floats, free: int) -> tuple[Floats, Floats, float] | Undefined:
    """Parameters, the inverse of their normal matrix, and the sum of squares."""

    def residual(parameters: Floats) -> Floats:
        return _throughput(parameters, x) - y

    def slopes(parameters: Floats) -> Floats:
        gamma, alpha, beta = (*parameters, 0.0)[:3]
        divisor = 1 + alpha * (x - 1) + beta * x * (x - 1)
        columns = [x / divisor, -gamma * x * (x - 1) / divisor**2, -gamma * x**2 * (x - 1) / divisor**2]
        return np.column_stack(columns[:free])

    # From the law turned round, N / throughput, which is linear: least squares weighted by y² / N.
    weight = y**2 / x
    turned = np.column_stack([np.ones_like(x), x - 1, x * (x - 1)][:free])
    solved = np.linalg.lstsq(turned * weight[:, None], x / y * weight, rcond=None)[0]
    start = np.array([float((y / x).max()), 0.05, 1e-4][:free])
    parameters = _minimum(residual, slopes, np.array([1.0, *solved[1:]]) / solved[0] if solved[0] > 0 else start)
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


@dataclass(frozen=True)
class Knee:
    """Two lines meet at `x`; `before` and `after` are their slopes in y per x (per doubling on the log2 scale).

    `p` tests one line against two.
    """

    x: float
    interval: Interval
    before: float
    after: float
    scale: str
    p: float


def knee(x: Floats, y: Floats, confidence: float, *, lower: bool = False) -> Knee | Undefined:
    """The knee of y over x, values of every repetition, both of shape (n,).

    Continuous two-phase regression; the interval holds the places at which the sum of squares is not larger than the
    least by more than F allows: Hinkley, "Inference about the intersection in two-phase regression" (Biometrika 56,
    1969); Seber and Wild, "Nonlinear Regression" (1989), 9.3. It supposes that all levels scatter alike. x is taken
    as it is or by its base-2 logarithm, whichever two lines fit better. A knee is one only where y gains
    before it and gains less (or loses) after it; `lower` says that falling is gaining.
    """
    x, y = as_floats(x), as_floats(y)
    levels = np.unique(x)
    if levels.size < FEWEST_LEVELS:
        return Undefined(f"{levels.size} levels; a knee needs at least {FEWEST_LEVELS}")
    if x.size < 7:
        return Undefined(f"{x.size} values; two lines and the place where they meet need at least 7")
    unit = float(np.ptp(y)) or 1.0
    shown = (y - y.min()) / unit
    scales = [LINEAR, *([LOGARITHMIC] if levels.min() > 0 else [])]
    # Two levels or more on each side: a line through one level fits anything.
    searches = [_searched(x, shown, scale, *_on_scale(levels[[1, -2]], scale)) for scale in scales]
    coarse = min(searches, key=lambda one: one.least)
    inside, step = coarse.inside(confidence), coarse.places[1] - coarse.places[0]
    low, high = max(inside.min() - step, coarse.places[0]), min(inside.max() + step, coarse.places[-1])
    found = _searched(x, shown, coarse.scale, low, high)  # a second look, as fine as the interval is narrow
    place, least = float(found.places[found.squares.argmin()]), found.least
    p = 1.0  # of the second line: F with the two parameters that it adds
    if found.straight > 1e-12:
        f = (found.straight - least) / 2 / (least / found.df) if least > 1e-15 else np.inf
        p = distributions.f_sf(f, 2, found.df)
    if p >= 1 - confidence:
        return Undefined("two straight lines fit no better than one")
    bent = np.column_stack([np.ones_like(found.u), found.u, np.maximum(found.u - place, 0)])
    before, bend = (float(value) for value in np.linalg.lstsq(bent, shown, rcond=None)[0][1:])
    gains = -1.0 if lower else 1.0
    if gains * before <= 0 or gains * bend >= 0:
        return Undefined("the curve does not gain first and less later")
    inside = found.inside(confidence)
    x_place, *ends = (
        float(2**one) if found.scale == LOGARITHMIC else float(one) for one in (place, inside.min(), inside.max())
    )
    return Knee(
        x=x_place,
        interval=Interval(ends[0], ends[1], confidence, "profile"),
        before=before * unit,
        after=(before + bend) * unit,
        scale=found.scale,
        p=p,
    )


@dataclass(frozen=True)
class _Search:
    """Sums of squares of two lines that meet at each of `places`, the `least` of them, and that of one line."""

    scale: str
    u: Floats
    places: Floats
    squares: Floats
    least: float
    straight: float
    df: int

    def inside(self, confidence: float) -> Floats:
        """The places that F, the square of t, does not exclude."""
        allowed = self.least * (1 + distributions.t_ppf((1 + confidence) / 2, self.df) ** 2 / self.df) + 1e-12
        return self.places[self.squares <= allowed]


def _searched(x: Floats, y: Floats, scale: str, low: float, high: float) -> _Search:
    """The search over places from `low` to `high`, on the scale."""
    u = _on_scale(x, scale)
    places = np.linspace(low, high, _PLACES + 1)
    # What the straight line leaves of y, and of each bend; the bend takes its share of the rest.
    base = np.linalg.qr(np.column_stack([np.ones_like(u), u]))[0]
    bends = np.maximum(u[:, None] - places[None, :], 0)
    rest, bends = y - base @ (base.T @ y), bends - base @ (base.T @ bends)
    straight = float(rest @ rest)
    squares = np.maximum(straight - (bends.T @ rest) ** 2 / np.sum(bends**2, axis=0), 0.0)
    return _Search(scale, u, places, squares, float(squares.min()), straight, u.size - 4)


def _on_scale(x: Floats, scale: str) -> Floats:
    return np.asarray(np.log2(x)) if scale == LOGARITHMIC else x
