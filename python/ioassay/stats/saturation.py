"""The knee of a curve: where a response stops gaining as it did. Two straight lines that meet, and an interval.

Not Kneedle (Satopaa et al., 2011): that finds a point on every curve, also on one that has no knee, and gives no
interval. Two lines are tested against one, and the place where they meet has a likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats

FEWEST_LEVELS = 4
LINEAR, LOGARITHMIC = "linear", "log2"
_STEPS = 400


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
    searches = [_searched(x, shown, scale, *_inner(levels, scale)) for scale in scales]
    coarse = min(searches, key=lambda one: one.least)
    near = coarse.near(confidence)  # a second look, as fine as the interval is narrow
    return _told(_searched(x, shown, coarse.scale, *near), unit, confidence, lower)


@dataclass(frozen=True)
class _Search:
    """Sums of squares of two lines that meet at each of `places`, and of one line, on one scale of x."""

    scale: str
    u: Floats
    y: Floats
    places: Floats
    squares: Floats
    straight: float

    @property
    def least(self) -> float:
        return float(self.squares.min())

    @property
    def df(self) -> int:
        return self.y.size - 4

    def inside(self, confidence: float) -> Floats:
        """The places that F does not exclude."""
        allowed = self.least * (1 + float(distributions.f_ppf(confidence, 1, self.df)) / self.df) + 1e-12
        return self.places[self.squares <= allowed]

    def near(self, confidence: float) -> tuple[float, float]:
        """The ends of `inside`, each with the next place outside it."""
        inside, step = self.inside(confidence), self.places[1] - self.places[0]
        low, high = float(inside.min() - step), float(inside.max() + step)
        return max(low, float(self.places[0])), min(high, float(self.places[-1]))


def _searched(x: Floats, y: Floats, scale: str, low: float, high: float) -> _Search:
    """The search over places from `low` to `high`, on the scale."""
    u = np.log2(x) if scale == LOGARITHMIC else x
    places = np.linspace(low, high, _STEPS + 1)
    # What the straight line leaves of y, and of each bend; the bend takes its share of the rest.
    base = np.linalg.qr(np.column_stack([np.ones_like(u), u]))[0]
    bends = np.maximum(u[:, None] - places[None, :], 0)
    rest, bends = y - base @ (base.T @ y), bends - base @ (base.T @ bends)
    straight = float(rest @ rest)
    squares = np.maximum(straight - (bends.T @ rest) ** 2 / np.sum(bends**2, axis=0), 0.0)
    return _Search(scale, u, y, places, squares, straight)


def _told(found: _Search, unit: float, confidence: float, lower: bool) -> Knee | Undefined:
    place = float(found.places[found.squares.argmin()])
    p = _test(found.straight, found.least, found.df)
    if p >= 1 - confidence:
        return Undefined("two straight lines fit no better than one")
    before, bend = (float(value) for value in np.linalg.lstsq(_bent(found.u, place), found.y, rcond=None)[0][1:])
    gains = -1.0 if lower else 1.0
    if gains * before <= 0 or gains * bend >= 0:
        return Undefined("the curve does not gain first and less later")
    inside = found.inside(confidence)
    ends = [_back(float(end), found.scale) for end in (inside.min(), inside.max())]
    return Knee(
        x=_back(place, found.scale),
        interval=Interval(ends[0], ends[1], confidence, "profile"),
        before=before * unit,
        after=(before + bend) * unit,
        scale=found.scale,
        p=p,
    )


def _inner(levels: Floats, scale: str) -> tuple[float, float]:
    """Where the knee may lie: two levels or more on each side, or a line through one level fits anything."""
    ends = levels[[1, -2]]
    low, high = np.log2(ends) if scale == LOGARITHMIC else ends
    return float(low), float(high)


def _bent(u: Floats, place: float) -> Floats:
    return np.column_stack([np.ones_like(u), u, np.maximum(u - place, 0)])


def _test(one: float, two: float, df: int) -> float:
    """p of the second line: F with the two parameters that it adds."""
    if one <= 1e-12:
        return 1.0
    return float(distributions.f_sf((one - two) / 2 / (two / df), 2, df)) if two > 1e-15 else 0.0


def _back(place: float, scale: str) -> float:
    return float(2**place) if scale == LOGARITHMIC else place
