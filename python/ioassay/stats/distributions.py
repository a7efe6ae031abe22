"""Probabilities and quantiles of the distributions that tests need: normal, t, F, chi-squared, studentized range.

They are those of scipy to 1e-10 or better (tests/analysis/test_distributions.py), which takes longer to import than
all analyses of a run take. `sf` is the probability above a value, `ppf` the value below which a probability lies.

The studentized range is computed for many pairs at once, since eleven block sizes make 55 pairs per response. The
range's distribution of a known variance is tabulated once per number of means, and the remaining integral over the
variance is a sum. It agrees with `scipy.stats.studentized_range`, which takes milliseconds a pair, to 1e-8.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from ioassay.stats.result import Floats

_TINY, _PRECISE = 1e-300, 1e-15
_MOST_STEPS = 100_000
_SETTLED = 1e-13
"""A step of Newton's this small leaves an error of its square."""
_NODES = 128
_STANDARD = NormalDist()
_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_cdfs(z: Floats) -> Floats:
    """P(Z <= z) of an array, of its shape."""
    return np.asarray(0.5 * np.asarray(_erfc(-z / math.sqrt(2)), dtype=np.float64))


def normal_ppf(probability: float) -> float:
    """M. J. Wichura, algorithm AS 241 (Applied Statistics 37, 1988), as the standard library has it."""
    if 0 < probability < 1:
        return _STANDARD.inv_cdf(probability)
    return {0.0: -math.inf, 1.0: math.inf}.get(probability, math.nan)


@lru_cache(maxsize=4096)
def t_sf(t: float, df: float) -> float:
    """P(T > t) of Student's distribution."""
    if math.isnan(t) or not df > 0:
        return math.nan
    square = t * t
    tail = 0.5 * _beta(df / 2, 0.5, df / (df + square), square / (df + square) if math.isfinite(square) else 1.0)
    return tail if t >= 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_ppf(probability: float, df: float) -> float:
    """The value that Student's variable stays below with this probability.

    Newton's steps on the logarithms of the upper tail and of t, kept within a bracket.
    """
    if not (0 < probability < 1 and df > 0):
        return math.nan
    if probability <= 0.5:
        return -t_ppf(1 - probability, df) if probability < 0.5 else 0.0
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    wanted, low, high, t = 1 - probability, 0.0, math.inf, max(normal_ppf(probability), 1e-8)
    for _ in range(200):
        above = t_sf(t, df)
        low, high = (t, high) if above > wanted else (low, t)
        slope = t * scale * math.exp(-(df + 1) / 2 * math.log1p(t * t / df))
        step = above * math.log(above / wanted) / slope if above > 0 and slope > 0 else math.inf
        following = t * math.exp(step) if abs(step) < 3 else math.nan
        if not low < following < high:
            following = 2 * t if math.isinf(high) else (low + high) / 2 if low > 0 else high / 4
        if abs(following - t) <= _SETTLED * t:
            return following
        t = following
    return t


@lru_cache(maxsize=4096)
def two_t_sf(t: float, df: float, correlation: float) -> float:
    """P(the larger |T| of two > t) of Student's variables over one estimated deviation.

    From that of one, which two have at correlation 1, by the derivative after the correlation (Plackett, Biometrika 41,
    1954; Genz, Statistics and Computing 14, 2004, equation 8), integrated over its arc sine.
    """
    nodes, weights = gauss()
    width, finite = (math.pi / 2 - math.asin(min(abs(correlation), 1.0))) / 2, min(df, 1e9)
    sine = np.sin(math.pi / 2 - width * (1 - nodes))
    corners = [(1 + 2 * t * t / finite / np.maximum(1 + sign * sine, _TINY)) ** (-finite / 2) for sign in (1, -1)]
    return 2 * t_sf(t, df) + float(np.sum(weights * (corners[0] - corners[1]))) * width / math.pi


@lru_cache(maxsize=4096)
def two_t_quantile(risk: float, df: float, correlation: float) -> float:
    """The t whose `two_t_sf` is `risk`, by halving between that of one variable and that of two independent tails."""
    low, high = t_ppf(1 - risk / 2, df), t_ppf(1 - risk / 4, df)
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_t_sf(middle, df, correlation) > risk else (low, middle)
    return high


@lru_cache(maxsize=4096)
def f_sf(f: float, df_one: float, df_two: float) -> float:
    """P(F > f) of Fisher's and Snedecor's distribution."""
    if math.isnan(f) or not (df_one > 0 and df_two > 0):
        return math.nan
    if f <= 0 or math.isinf(f):
        return 1.0 if f <= 0 else 0.0
    whole = df_two + df_one * f
    return _beta(df_two / 2, df_one / 2, df_two / whole, df_one * f / whole)


def deviation_nodes(df: Floats) -> tuple[Floats, Floats]:
    """Nodes over the estimated deviation chi(df) / sqrt(df) and the probability at each, shape (n, nodes) both.

    The bounds leave out less than 2e-15 of the distribution.
    """
    nodes, weights = gauss()
    ends = np.array([_deviation_bounds(float(one)) for one in df])
    low, high, df = ends[:, :1], ends[:, 1:], df[:, None]
    deviation = low + (high - low) * (nodes + 1) / 2
    constant = np.array([[math.lgamma(float(one) / 2)] for one in df[:, 0]])
    x = df * deviation**2
    density = np.exp((df / 2 - 1) * np.log(x) - x / 2 - df / 2 * math.log(2) - constant)
    return deviation, weights * density * 2 * df * deviation * (high - low) / 2


@lru_cache(maxsize=1)
def gauss() -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre's quadrature on -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


@lru_cache(maxsize=4096)
def _deviation_bounds(df: float) -> tuple[float, float]:
    """Beyond which the estimated deviation lies with less than 1e-15 on either side.

    Chernoff's bound: its square is beyond c, on one side of 1, with at most exp(-df / 2 (c - 1 - ln c)).
    """
    ends, exponent = [], -2 * math.log(_PRECISE) / df
    # Newton's method, from outside of both roots.
    for c in (math.exp(-1 - exponent), 1 + exponent + math.sqrt(2 * exponent)):
        for _ in range(60):
            c -= (c - 1 - math.log(c) - exponent) / (1 - 1 / c)
        ends.append(math.sqrt(c))
    return ends[0], ends[1]


def _beta(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function at x, where y = 1 - x is known better than by subtraction.

    Continued fraction by Lentz's method: W. H. Press et al., "Numerical Recipes", 3rd edition, 2007, 6.4.
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_fraction(b, a, y, x)
    return _beta_fraction(a, b, x, y)


def _beta_fraction(a: float, b: float, x: float, y: float) -> float:
    powers = a * (math.log1p(-y) if y < 0.5 else math.log(x)) + b * (math.log1p(-x) if x < 0.5 else math.log(y))
    # The logarithm of the beta function; of large arguments by Stirling's series, because lgamma's digits cancel.
    large, small = max(a, b), min(a, b)
    log_beta = math.lgamma(small)
    if large < 1000:
        log_beta = math.lgamma(large) + log_beta - math.lgamma(large + small)
    else:
        ratio = small * math.log(large) + (large + small - 0.5) * math.log1p(small / large)
        log_beta -= ratio - small + _stirling(large + small) - _stirling(large)
    front = math.exp(powers - log_beta) / a
    if front == 0:
        return 0.0
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_STEPS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _away(1 + factor * d), _away(1 + factor / c)
            value *= c * d
        if abs(c * d - 1) < _PRECISE:
            break
    return front * value


def _stirling(z: float) -> float:
    return 1 / (12 * z) - 1 / (360 * z**3)


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


_LARGEST_RANGE = 40.0
_KNOTS = 1601


def range_cdf(q: Floats, means: int, df: Floats) -> Floats:
    """P(range of `means` standard normal means / estimated deviation <= q); `q` and `df` of one shape (n,).

    Integral over the deviation s = chi(df) / sqrt(df): Lund and Lund, algorithm AS 190 (Applied Statistics 32, 1983).
    """
    return _integrate(np.asarray(q, dtype=np.float64), means, *deviation_nodes(np.asarray(df, dtype=np.float64)))


def range_quantile(probability: float, means: int, df: Floats) -> Floats:
    """The q whose `range_cdf` is `probability`, for each of `df` (shape (n,)), to 14 digits.

    Regula falsi in the form that is called Illinois: a bracket whose one end stays has its value halved.
    """
    deviation, mass = deviation_nodes(np.asarray(df, dtype=np.float64))
    low, high = np.zeros(deviation.shape[0]), np.ones(deviation.shape[0])
    below = np.full(low.shape, -probability)
    while ((above := _integrate(high, means, deviation, mass) - probability) < 0).any() and high.max() < 1e6:
        low, below = np.where(above < 0, high, low), np.where(above < 0, above, below)
        high = np.where(above < 0, high * 2, high)
    last, q = np.zeros(low.shape), high
    for _ in range(100):
        previous, q = q, np.where(above > below, low - below * (high - low) / np.maximum(above - below, 1e-300), low)
        if (np.abs(q - previous) <= 1e-14 * q).all():
            break
        value = _integrate(q, means, deviation, mass) - probability
        side = np.sign(value)
        again = np.where(side == last, 0.5, 1.0)
        low, below, above = (
            np.where(side < 0, q, low),
            np.where(side < 0, value, below * np.where(side > 0, again, 1.0)),
            np.where(side < 0, above * again, above),
        )
        high, above = np.where(side >= 0, q, high), np.where(side >= 0, value, above)
        last = side
    return q


def _integrate(q: Floats, means: int, deviation: Floats, mass: Floats) -> Floats:
    below = _between(means, np.minimum(q[:, None] * deviation, _LARGEST_RANGE))
    return np.asarray(np.clip(np.sum(mass * below, axis=1), 0.0, 1.0))


@lru_cache(maxsize=64)
def _known_variance(means: int) -> tuple[Floats, Floats]:
    """P(range of `means` standard normals <= w) = k ∫ φ(z) (Φ(z) - Φ(z - w))^(k-1) dz and its slope on a grid."""
    inside, near, weights = _shared()
    table = means * np.sum(weights * inside ** (means - 1), axis=1)
    slope = means * (means - 1) * np.sum(weights * near * inside ** (means - 2), axis=1)
    return np.minimum(table, 1.0), slope


@lru_cache(maxsize=1)
def _shared() -> tuple[Floats, Floats, Floats]:
    """What the tables of all numbers of means are made of: Φ(z) - Φ(z - w), φ(z - w), and φ(z) with its weights."""
    w = np.linspace(0.0, _LARGEST_RANGE, _KNOTS)[:, None]
    nodes, weights = gauss()
    # z runs over the largest of the means: beyond 9 its density is below 1e-18.
    z = nodes * 9.0
    inside = normal_cdfs(z) - normal_cdfs(z - w)
    return inside, _density(z - w), weights * 9.0 * _density(z)


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _between(means: int, w: Floats) -> Floats:
    """The table at any w in its range: cubic Hermite interpolation, whose error is below 1e-9 at this distance."""
    table, slope = _known_variance(means)
    step = _LARGEST_RANGE / (_KNOTS - 1)
    place = np.minimum((w / step).astype(np.intp), _KNOTS - 2)
    part = w / step - place
    rest = 1 - part
    low, high = table[place], table[place + 1]
    bent = rest * slope[place] - part * slope[place + 1]
    return np.asarray(low * rest**2 * (1 + 2 * part) + high * part**2 * (3 - 2 * part) + step * part * rest * bent)
