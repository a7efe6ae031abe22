"""Change points of a series, one value a run, whose noise follows itself in time.

Runs of one night share a temperature, a fill level and neighbours, so that a slow run is followed by a slow one: tests
that take runs for independent call such waves changes. Here each value follows from those before (one, in series of 100
runs or more three, since means of runs hold the noise of repetitions, too), estimated together with each change
(`_scan`). The risk of a false point is that of a whole series. It holds for correlations of neighbours up to 0.7.

Values are regressed on those before, and on one step, or one stretch between two steps. The t is that of the step that
explains most, the p-value that t's tail times the number of independent places to look (`_PLACES`).
Where there is a change, both sides are searched again, at their share of the risk; each point has to stand once more
between its neighbours (binary segmentation: Scott and Knott, Biometrics 30, 1974; stretches as in Olshen et al.,
Biostatistics 5, 2004). Runs further out than 2.5 robust deviations are held there, so that no single run, nor a heavy
tail, makes a change. A series that a slope explains better than its steps drifts.

ruptures (1.1.10) has no such noise model, takes the number of changes or a penalty from its caller, and brings scipy:
140 MB, and more than a second to import. Its exact segmentation is what tests compare the places with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined

if TYPE_CHECKING:
    import numpy.typing as npt

RISK = 0.075
"""Of one false point or more in a series without any change: a step of 1.5 deviations is found in 10 runs with 0.8."""
FEWEST = 10
"""Runs below which nothing is tested."""
SHORTEST = 3
"""Runs that a level lasts at least: one odd run is an outlier."""
POWER = 0.8
_CONFIDENCE = 0.95
_GROWTH = 1.25
"""Of the lengths of stretches that are tried."""
_PLACES = (16.0, 5.0, 6.0)
"""a, b and c: a step has a ln(n / b) independent places in n runs, a stretch c n.

Upper bounds of what simulation needs for n of 10 to 2,000 and risks of 0.1 to 0.001.
"""
_PLACE_LOSS = 7.35
"""Twice the log-likelihood that a place may lack to be in the interval of 95 %.

Each side of the true place exceeds c with probability exp(-c / 2), and (1 - exp(-c / 2)) squared is 0.95 (Siegmund,
International Statistical Review 56, 1988).
"""
_LARGEST_SEARCHED, _LARGEST_SIZED = 2.5, 3.5
"""Robust deviations at which a run is held: from the median of what is searched, and from its level for sizes."""
_SHORTEST_PART = 20
_LAGS, _ENOUGH_FOR_LAGS = 3, 100
"""Runs before one that it may follow, in series of so many: means of runs hold the noise of repetitions, too."""
_MOST_CORRELATED = 0.95
_EQUAL = 0.05
"""Of the test of equal variances."""


@dataclass(frozen=True)
class ChangePoint:
    """A lasting change: `index` is the first run after it, which lies within `first` to `last` at 95 %.

    `before` and `after` are the levels on either side, in the unit of the values. `change` is the interval of after /
    before, of after - before where values are not all positive; `size` is its middle. `p` is that of its test.
    """

    index: int
    first: int
    last: int
    before: float
    after: float
    size: float
    change: Interval
    p: float

    def moved(self, places: npt.NDArray[np.int64]) -> ChangePoint:
        """The same among all runs, of which those at `places` have a value."""
        index, first, last = (int(places[one]) for one in (self.index, self.first, self.last))
        return replace(self, index=index, first=first, last=last)


@dataclass(frozen=True)
class Drift:
    """A slope that explains the series better than steps do: `size` is last / first, or last - first."""

    size: float
    change: Interval


@dataclass(frozen=True)
class Changes:
    """The changes of a series of `n` values; where `is_ratio`, changes are ratios, else differences.

    `p` is that of there being no change at all.
    `deviation` is that of a run about its level, a share where `is_ratio`; `correlation` is of a run with the next.
    `levels` has one value a run: of its level, or of the drift; NaN where a run has no value. `least` is the smallest
    lasting step halfway that four of five such series would show (`POWER`), a share where `is_ratio`; `least_recent`
    the same for one at the last ten runs, None where there are too few.
    """

    points: tuple[ChangePoint, ...]
    drift: Drift | None
    p: float
    n: int
    is_ratio: bool
    deviation: float
    correlation: float
    levels: Floats
    risk: float
    least: float
    least_recent: float | None

    @property
    def has_changed(self) -> bool:
        return bool(self.points or self.drift)


def change_points(values: Sequence[float] | Floats, risk: float = RISK) -> Changes | Undefined:
    """The changes of `values`, in order of time; NaN is a run without a value, and counts in indices only.

    Undefined for fewer than FEWEST values or where all are equal. ValueError for an infinite value or a `risk` outside
    0 to 1.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    if np.isinf(array).any():
        raise ValueError("values hold infinity; expected finite numbers, or NaN where a run has none")
    if not 0 < risk < 1:
        raise ValueError(f"risk is {risk}; expected a probability between 0 and 1")
    places = np.flatnonzero(~np.isnan(array))
    known = array[places]
    if known.size < FEWEST:
        return Undefined(f"{known.size} run{'' if known.size == 1 else 's'}; change points need at least {FEWEST}")
    if np.ptp(known) == 0:
        return Undefined("all runs are equal")
    is_ratio = bool(known.min() > 0)
    scaled = np.log(known) if is_ratio else known
    p_none, first_cuts = _search(scaled, 0, scaled.size, risk)
    cuts = _standing(scaled, first_cuts, risk)
    held = _held(scaled, [*cuts], _LARGEST_SIZED)
    noise = _Noise.of(held, [*cuts])
    found: dict[tuple[int, int, int], float] = {}
    begin = 0
    for (_, cut, end), p in zip(_between([*cuts], known.size), cuts.values(), strict=True):
        place = _place(held, (begin, cut, end), noise)
        found[place], begin = p, place[0]
    noise = _Noise.of(held, [place[0] for place in found])
    drift = _drift(held, [*cuts], noise, is_ratio) if found else None
    points = () if drift else _points(held, found, noise, is_ratio)
    if drift:
        noise = _Noise.of(held - _line(held), [])
    levels = np.full(array.size, np.nan)
    levels[places] = _line(held) if drift else _levels(held, [place[0] for place in found])
    least = [_least(noise, known.size, after, risk, is_ratio) for after in (known.size // 2, 10)]
    return Changes(
        points=tuple(one.moved(places) for one in points),
        drift=drift,
        p=p_none,
        n=int(known.size),
        is_ratio=is_ratio,
        deviation=math.sqrt(noise.variance),
        correlation=noise.correlation,
        levels=np.exp(levels) if is_ratio else levels,
        risk=risk,
        least=least[0],
        least_recent=least[1] if known.size >= 20 else None,
    )


# The search


def _search(values: Floats, begin: int, end: int, risk: float) -> tuple[float, list[int]]:
    """The p-value of no change between `begin` and `end`, and the cuts: each the first index of a new level.

    `risk` is that of the whole series.
    """
    share = risk * (end - begin) / values.size
    p, cuts = _scan(values[begin:end])
    cuts = [begin + cut for cut in cuts]
    if p > share:
        p, cuts = min([(p, cuts), *_parts(values, begin, end)])
    if p > share:
        return p, []
    sides = itertools.pairwise([begin, *cuts, end])
    return p, sorted([*cuts, *(cut for side in sides for cut in _search(values, *side, risk)[1])])


def _parts(values: Floats, begin: int, end: int) -> Iterator[tuple[float, list[int]]]:
    """What `_scan` finds in the halves, quarters … of a stretch, which overlap; p-values are for all of them together.

    Several steps up and down look like noise that follows itself, until one looks where there is one of them (seeded
    intervals: Kovács, Bühlmann, Li and Munk, Biometrika 110, 2023).
    """
    n, parts = end - begin, list[int]()
    while (n >> (len(parts) + 1)) >= _SHORTEST_PART:
        parts.append(n >> (len(parts) + 1))
    for length in parts:
        for start in range(begin, end - length + 1, length // 2):
            p, cuts = _scan(values[start : start + length])
            yield min(2 * len(parts) * p * n / length, 1.0), [start + cut for cut in cuts]


def _standing(values: Floats, cuts: list[int], risk: float) -> dict[int, float]:
    """The cuts that are a step between their neighbours as well, at their best place there, each with its p-value."""
    tested: dict[int, float] = {}
    for _ in range(2 * len(cuts) + 2):
        tested, begin = {}, 0
        for _, cut, end in _between(cuts, values.size):
            p, best = _scan(values[begin:end], stretches=False)
            begin, share = begin + best[0] if best else cut, (end - begin) / values.size
            tested[begin] = p / share
        weakest = max(tested, key=lambda cut: tested[cut], default=0)
        if tested and tested[weakest] > risk:
            del tested[weakest]
        if [*tested] == cuts:
            break
        cuts = [*tested]
    return tested


def _between(cuts: Sequence[int], n: int) -> list[tuple[int, int, int]]:
    """Each cut with the one before and the one after it."""
    edges = [0, *cuts, n]
    return [*zip(edges, cuts, edges[2:], strict=False)]


def _scan(values: Floats, stretches: bool = True) -> tuple[float, list[int]]:
    """The step, or the stretch, that explains most of `values`: the p-value of there being none, and where it is.

    The regression of a value on those before, a constant and the step has closed form at every place at once: of
    residuals r, and orthonormal predecessors u, the step of m runs explains (sum of r)² / (m - m²/n - Σ (sum of u)²).
    """
    lags = _LAGS if values.size >= _ENOUGH_FOR_LAGS else 1
    n = values.size - lags
    if values.size < FEWEST or np.ptp(values) == 0:
        return 1.0, []
    held = _held(values, [], _LARGEST_SEARCHED)
    before = np.array([held[lags - lag : values.size - lag] for lag in range(1, lags + 1)]).T
    unit, size = np.linalg.qr(before - before.mean(axis=0))
    unit = unit[:, np.abs(np.diagonal(size)) > 1e-9 * np.abs(size).max()]
    after = held[lags:] - held[lags:].mean()
    residual = after - unit @ (unit.T @ after)
    left = float(residual @ residual)
    if left <= 1e-9 * float(after @ after):  # each value follows from those before
        return 1.0, []
    residual_sum = np.concatenate(([0.0], np.cumsum(residual)))
    unit_sum = np.concatenate((np.zeros((1, unit.shape[1])), np.cumsum(unit, axis=0)))

    def strongest(begins: npt.NDArray[np.int64], length: npt.NDArray[np.int64] | int) -> tuple[float, int, int]:
        """The largest share of the residuals that a step explains which begins there, and where it begins and ends."""
        ends = begins + length
        kept = length - length * length / n - ((unit_sum[ends] - unit_sum[begins]) ** 2).sum(axis=1)
        shares = (residual_sum[ends] - residual_sum[begins]) ** 2 / np.maximum(kept, 1e-9 * n) / left
        best = int(np.argmax(shares))
        return float(shares[best]), int(begins[best]) + lags, int(ends[best]) + lags

    def p_value(share: float, begin: int, end: int) -> float:
        inside = np.zeros(values.size, dtype=bool)
        inside[begin:end] = True
        share = min(share, 1 - 1e-15)
        t, freedom = _of_unequal(held, inside, math.sqrt(share / (1 - share) * (n - lags - 2)))
        return max(2 * distributions.t_sf(t, freedom), _of_ties(values, inside))

    a, b, c = _PLACES
    earliest = max(SHORTEST - lags, 1)
    begins = np.arange(earliest, n - SHORTEST + 1)
    step = strongest(begins, n - begins)
    found = (a * math.log(values.size / b) * p_value(*step), [step[1]])
    if stretches:
        lengths = {int(SHORTEST * _GROWTH**i) for i in range(int(math.log(n / 2 / SHORTEST, _GROWTH)) + 1)}
        places = {length: np.arange(earliest, n - SHORTEST - length + 1) for length in sorted(lengths)}
        if known := [strongest(at, length) for length, at in places.items() if at.size]:
            stretch = max(known)
            found = min(found, (c * values.size * p_value(*stretch), [*stretch[1:]]))
        found = (2 * found[0], found[1])
    return min(found[0], 1.0), found[1]


def _of_unequal(held: Floats, inside: npt.NDArray[np.bool_], t: float) -> tuple[float, float]:
    """`t` and its degrees of freedom, where the smaller side does not scatter more; else both as of Welch's test.

    Welch, Biometrika 34 (1947). A side of few runs would always be tested with their own variance at the price of most
    of its power, so it is only where the ratio of variances is beyond what equal ones leave at 5 %.
    """
    sides = sorted((held[inside], held[~inside]), key=len)
    few, many = (side.size for side in sides)
    of_few, of_many = (float(side.var(ddof=1)) for side in sides)
    if of_few <= of_many or distributions.f_sf(of_few / max(of_many, 1e-300), few - 1, many - 1) > _EQUAL:
        return t, few + many - 2 * _LAGS - 2
    pooled = ((few - 1) * of_few + (many - 1) * of_many) / (few + many - 2) * (1 / few + 1 / many)
    return t * math.sqrt(pooled / (of_few / few + of_many / many)), few - 1


def _of_ties(values: Floats, inside: npt.NDArray[np.bool_]) -> float:
    """Where most values are equal, the probability of as many others on the side that has more of them; else 0.

    Fisher's exact test: three odd runs of ten that fall together are further in the tail of a t than of chance.
    """
    common, count = np.unique(values, return_counts=True)
    if 2 * count.max() <= values.size:
        return 0.0
    odd = values != common[np.argmax(count)]
    n, every = values.size, int(odd.sum())
    length, there = int(inside.sum()), int(odd[inside].sum())
    if there * n < every * length:
        length, there = n - length, every - there
    ways = sum(math.comb(length, k) * math.comb(n - length, every - k) for k in range(there, min(length, every) + 1))
    return ways / math.comb(n, every)


# Sizes


@dataclass(frozen=True)
class _Noise:
    """What is left about the levels: its variance, the correlation of neighbours, and how many runs estimate it."""

    variance: float
    correlation: float
    freedom: float

    @classmethod
    def of(cls, values: Floats, cuts: Sequence[int]) -> _Noise:
        """Of residuals from the levels between `cuts`.

        A level that is estimated takes from the correlation (1 + 3 r) / n (Kendall, Biometrika 41, 1954) for each of
        them, and from the variance that of its mean.
        """
        left = values - _levels(values, cuts)
        inner = np.ones(values.size - 1, dtype=bool)
        inner[[cut - 1 for cut in cuts]] = False
        square = float(left @ left)
        if square <= 1e-24 * float(values @ values):
            return cls(0.0, 0.0, float(values.size))
        share = (len(cuts) + 1) / values.size
        raw = float((left[:-1] * left[1:])[inner].sum()) / square
        correlation = min(max((raw + share) / max(1 - 3 * share, 0.1), 0.0), _MOST_CORRELATED)
        lengths = np.diff([0, *cuts, values.size])
        lost = sum(_inflation(correlation, int(length)) for length in lengths)
        freedom = max(values.size / _inflation(correlation, values.size) - len(lengths), 2.0)
        return cls(square / max(values.size - lost, 1.0), correlation, freedom)

    def of_mean(self, n: int) -> float:
        """The variance of the mean of `n` runs in a row."""
        return self.variance * _inflation(self.correlation, n) / n


def _inflation(correlation: float, n: int) -> float:
    """The variance of the mean of `n` neighbours over that of as many independent runs."""
    one = 1 - correlation
    return (1 + correlation) / one - 2 * correlation * (1 - correlation**n) / (n * one**2)


def _levels(values: Floats, cuts: Sequence[int]) -> Floats:
    """The mean of its level for each value."""
    return np.concatenate([np.full(part.size, part.mean()) for part in np.split(values, [*cuts])])


def _held(values: Floats, cuts: Sequence[int], deviations: float) -> Floats:
    """Values no further from the median of their level than this number of robust deviations (Winsorized)."""
    middles = np.concatenate([np.full(part.size, np.median(part)) for part in np.split(values, [*cuts])])
    left = values - middles
    most = deviations * 1.4826 * float(np.median(np.abs(left)))
    return middles + np.clip(left, -most, most) if most else values


def _place(values: Floats, edges: tuple[int, int, int], noise: _Noise) -> tuple[int, int, int]:
    """The likeliest place of a step between two edges, given the noise, and the ends of its interval."""
    begin, cut, end = edges
    part, r = values[begin:end], noise.correlation
    n = part.size
    if noise.variance == 0:
        return cut, cut, cut
    weight = math.sqrt(1 - r * r)
    white = np.concatenate((part[:1] * weight, part[1:] - r * part[:-1]))
    constant = np.concatenate(([weight], np.full(n - 1, 1 - r)))
    # The step at k: 1 there, 1 - r after it.
    at = np.arange(SHORTEST, n - SHORTEST + 1)
    after = np.concatenate((np.cumsum(white[::-1])[::-1], [0.0]))[at + 1]
    own = 1 + (n - at - 1) * (1 - r) ** 2
    shared, whole = 1 - r + (n - at - 1) * (1 - r) ** 2, float(constant @ constant)
    along = white[at] + (1 - r) * after - shared * float(constant @ white) / whole
    gain = along**2 / (own - shared**2 / whole) / (noise.variance * weight**2)
    near = np.flatnonzero(gain >= gain.max() - _PLACE_LOSS)
    return tuple(int(begin + at[one]) for one in (int(np.argmax(gain)), near[0], near[-1]))  # type: ignore[return-value]


def _points(
    values: Floats, found: dict[tuple[int, int, int], float], noise: _Noise, is_ratio: bool
) -> Iterator[ChangePoint]:
    """The points with their sizes: differences of the means of neighbouring levels."""
    for (place, p), (begin, cut, end) in zip(
        found.items(), _between([place[0] for place in found], values.size), strict=True
    ):
        sides = values[begin:cut], values[cut:end]
        before, after = (float(side.mean()) for side in sides)
        error = math.sqrt(sum(noise.of_mean(side.size) for side in sides))
        size, change = _sized(after - before, error, noise, is_ratio)
        levels = (math.exp(before), math.exp(after)) if is_ratio else (before, after)
        yield ChangePoint(*place, *levels, size, change, p)


def _sized(difference: float, error: float, noise: _Noise, is_ratio: bool) -> tuple[float, Interval]:
    half = distributions.t_ppf((1 + _CONFIDENCE) / 2, noise.freedom) * error
    ends = difference, difference - half, difference + half
    size, low, high = map(math.exp, ends) if is_ratio else ends
    return size, Interval(low, high, _CONFIDENCE, "log t" if is_ratio else "t")


def _line(values: Floats) -> Floats:
    """The line of least squares over the runs."""
    x = np.arange(values.size) - (values.size - 1) / 2
    return np.asarray(values.mean() + (x @ values) / (x @ x) * x)


def _drift(values: Floats, cuts: Sequence[int], noise: _Noise, is_ratio: bool) -> Drift | None:
    """The drift, where a line explains the series better than the steps (Schwarz, Annals of Statistics 6, 1978)."""
    n = values.size
    steps = np.array([np.arange(1, n) >= cut for cut in cuts], dtype=np.float64)
    line = np.arange(1, n, dtype=np.float64)[None, :]

    def criterion(columns: Floats, parameters: int) -> float:
        design = np.vstack((np.ones(n - 1), values[:-1], columns)).T
        residual = values[1:] - design @ np.linalg.lstsq(design, values[1:], rcond=None)[0]
        return n * math.log(max(float(residual @ residual), 1e-300)) + parameters * math.log(n)

    if criterion(line, 1) >= criterion(steps, 2 * len(cuts) - 1):
        return None
    fitted = _line(values)
    left = _Noise.of(values - fitted, [])
    x = np.arange(n) - (n - 1) / 2
    error = math.sqrt(left.variance * _inflation(left.correlation, n) / float(x @ x)) * (n - 1)
    size, change = _sized(float(fitted[-1] - fitted[0]), error, left, is_ratio)
    return Drift(size, change)


def _least(noise: _Noise, n: int, after: int, risk: float, is_ratio: bool) -> float:
    """The step before the last `after` runs that is found with probability POWER."""
    a, b, _ = _PLACES
    p = risk / (2 * a * math.log(n / b))
    reach = distributions.t_ppf(1 - p / 2, n - 4) + distributions.normal_ppf(POWER)
    step = reach * math.sqrt(noise.of_mean(after) + noise.of_mean(max(n - after, 1)))
    return math.expm1(step) if is_ratio else step
