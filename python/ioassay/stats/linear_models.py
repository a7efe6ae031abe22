"""Linear models by least squares: analyses of variance of one factor or several, interactions, and straight lines.

Which group differs from which is `contrasts.py`.

An analysis of log samples that counts each as an observation believes in far more degrees of freedom than there are,
since samples of one run resemble their neighbours: `dependence` says how much independent information they hold, and
`corrected` what is left of the analysis.

Whether the difference between two levels of a factor depends on another factor is read from fitted condition means. Two
levels of each of two factors give four means, and one contrast: the ratio between the levels of the first, divided by
the same ratio at the other level of the second (on the raw scale differences of differences). All such contrasts hold
at once (Bonferroni; their degrees of freedom are Satterthwaite's). That none is beyond the margin is an intersection of
one-sided tests, each at the full risk (Berger, Technometrics 24, 1982).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.condition_means import ConditionMeans
from ioassay.stats.contrasts import Contrasts, Pair, by_df, grid_df, repetitions_needed
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

NO_SPREAD = "the repetitions of every condition are identical, so there is no spread to test against"


@dataclass(frozen=True)
class OneWay:
    """Classic one-way analysis of variance. `eta2` is R²; `omega2` is corrected for chance (may be below 0).

    `ss_*` are sums of squares and `ms_*` mean squares in the squared unit of the values.
    """

    df_between: int
    df_within: int
    ss_between: float
    ss_within: float
    ms_between: float
    ms_within: float
    f: float
    p: float
    eta2: float
    omega2: float


def one_way(groups: Sequence[Floats]) -> OneWay | Undefined:
    """Fisher's one-way analysis of variance (Statistical Methods for Research Workers, 1925)."""
    arrays = [array for array in map(as_floats, groups) if array.size]
    count, size = len(arrays), sum(array.size for array in arrays)
    if count < 2:
        return Undefined(f"{count} condition with values; a comparison needs at least 2")
    if size <= count:
        return Undefined("no condition has a second repetition, so there is no spread to test against")
    # A common offset (13 leading digits in NIST's SmLs09) must not eat the digits that differ.
    origin = float(np.median(np.concatenate(arrays)))
    arrays = [array - origin for array in arrays]
    ss_within = float(sum(sum_of_squares(array) for array in arrays))
    if ss_within == 0:
        return Undefined(NO_SPREAD)
    sizes = np.array([array.size for array in arrays], dtype=np.float64)
    means = np.array([mean_of(array) for array in arrays])
    ss_between = float(np.sum(sizes * (means - np.average(means, weights=sizes)) ** 2))
    df_between, df_within, total = count - 1, size - count, ss_between + ss_within
    ms_between, ms_within = ss_between / df_between, ss_within / df_within
    f = ms_between / ms_within
    return OneWay(
        df_between=df_between,
        df_within=df_within,
        ss_between=ss_between,
        ss_within=ss_within,
        ms_between=ms_between,
        ms_within=ms_within,
        f=f,
        p=float(distributions.f_sf(f, df_between, df_within)),
        eta2=ss_between / total,
        omega2=(ss_between - df_between * ms_within) / (total + ms_within),
    )


@dataclass(frozen=True)
class Dependence:
    """Dependence inside runs, pooled over them. `lag1` is the correlation of neighbours.

    `time` is the integrated autocorrelation time in samples (1: independent), `effective` = samples / time.
    """

    samples: int
    lag1: float
    time: float
    effective: float


@dataclass(frozen=True)
class Corrected:
    """An ANOVA over dependent samples, with its F deflated and its degrees of freedom reduced to what is there."""

    f: float
    df_between: int
    df_within: float
    p: float


def dependence(runs: Sequence[Floats]) -> Dependence | Undefined:
    """Lag-1 autocorrelation and effective sample size of runs of one condition, each about its own mean.

    The sum of autocorrelations stops where a pair of neighbouring lags first sums to less than zero: the initial
    positive sequence of Geyer, "Practical Markov chain Monte Carlo" (Statistical Science 7, 1992). Times below 1
    (negative correlation) are set to 1, which errs on the side of fewer samples. Series of fewer than about 50
    samples underestimate the dependence, because each run's own mean is taken out.
    """
    arrays = [array for array in map(as_floats, runs) if array.size >= 4]
    if not arrays:
        return Undefined("no run has 4 log samples")
    lags = min(array.size for array in arrays) // 2
    # Sums of products of deviations at lags 0 to `lags`, by the Wiener-Khinchin theorem.
    spectra = [np.abs(np.fft.rfft(array - array.mean(), 2 * array.size)) ** 2 for array in arrays]
    covariance = np.sum([np.fft.irfft(spectrum)[: lags + 1] for spectrum in spectra], axis=0)
    if covariance[0] <= 0:
        return Undefined("the log samples of every run are identical")
    rho = covariance / covariance[0]
    pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    kept = pairs[: negative[0]] if negative.size else pairs
    # The pairs count lag 0 once; every other lag occurs on both sides.
    samples, time = sum(array.size for array in arrays), max(1.0, float(2 * kept.sum() - 1))
    return Dependence(samples, float(rho[1]), time, samples / time)


def corrected(anova: OneWay, found: Dependence) -> Corrected:
    """The one-way ANOVA as if only `found.effective` samples had been taken: F / time, with as many degrees of freedom.

    The variance of a run's mean is `time` times what independent samples would give: Zwiers and von Storch,
    "Taking serial correlation into account in tests of the mean" (Journal of Climate 8, 1995). Approximate.
    """
    groups = anova.df_between + 1
    df_within = max(found.effective - groups, 1.0)
    f = anova.f / found.time
    return Corrected(f, anova.df_between, df_within, float(distributions.f_sf(f, anova.df_between, df_within)))


# Several factors at once


BLOCK = "block"
Term = tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """One line of the table. `term` joins factor names with ' × '; sums of squares in the squared unit of the values.

    `partial_*` relate to this effect and the residual only, `eta2` and `omega2` to all variation.
    """

    term: str
    df: int
    ss: float
    ms: float
    f: float
    p: float
    eta2: float
    partial_eta2: float
    omega2: float
    partial_omega2: float


@dataclass(frozen=True)
class Factorial:
    """A factorial analysis of variance, by sums of squares of type II."""

    effects: tuple[Effect, ...]
    df_residual: int
    ss_residual: float
    ms_residual: float
    ss_total: float

    def effect(self, term: str) -> Effect | None:
        """The line of `term`, or None where it could not be tested."""
        return next((effect for effect in self.effects if effect.term == term), None)


def factorial(
    values: Floats,
    factors: Mapping[str, Sequence[object]],
    *,
    block: Sequence[object] | None = None,
    interactions: bool = True,
) -> Factorial | Undefined:
    """Main effects and two-factor interactions of `factors` (name -> the level of each value).

    A term is tested against the model of all terms that do not contain it (type II): Yates, JASA 29 (1934); Langsrud,
    "ANOVA for unbalanced data: use type II instead of type III sums of squares" (Statistics and Computing 13, 2003).
    `block` adds one line without interactions: the randomised complete block design of Fisher, "The Design of
    Experiments" (1935).
    """
    y = as_floats(values)
    columns = {name: _contrasts(levels) for name, levels in factors.items() if len(set(levels)) > 1}
    if not columns:
        return Undefined("no factor has two levels with values")
    terms: list[Term] = [(name,) for name in columns]
    if interactions:
        terms += list(combinations(columns, 2))
    matrices: dict[Term, Floats] = {(name,): column for name, column in columns.items()}
    for one, other in (term for term in terms if len(term) == 2):
        crossed = columns[one][:, :, None] * columns[other][:, None, :]
        matrices[one, other] = crossed.reshape(y.size, -1)
    if block is not None:
        terms.insert(0, (BLOCK,))
        matrices[BLOCK,] = _contrasts(block)
    y = y - np.median(y)  # a large common offset eats digits of the residuals

    def fitted(chosen: Sequence[Term]) -> tuple[float, int]:
        return residual_ss(np.hstack([np.ones((y.size, 1)), *(matrices[term] for term in chosen)]), y)

    ss_residual, rank = fitted(terms)
    df_residual, ss_total = y.size - rank, sum_of_squares(y)
    if df_residual < 1:
        return Undefined("there are no repetitions to tell the interaction from chance")
    if ss_residual <= 1e-24 * ss_total or ss_total == 0:
        return Undefined(NO_SPREAD)
    effects, error = [], ss_residual / df_residual
    for term in terms:
        others = [other for other in terms if other != term and not set(term) < set(other)]
        without, rank_without = fitted(others)
        with_, rank_with = fitted([*others, term])
        df = rank_with - rank_without
        if df < 1:
            continue
        ss = max(without - with_, 0.0)
        f = ss / df / error
        effects.append(
            Effect(
                term=" × ".join(term),
                df=df,
                ss=ss,
                ms=ss / df,
                f=f,
                p=float(distributions.f_sf(f, df, df_residual)),
                eta2=ss / ss_total,
                partial_eta2=ss / (ss + ss_residual),
                omega2=(ss - df * error) / (ss_total + error),
                # Olejnik and Algina, "Generalized eta and omega squared statistics", Psychological Methods 8 (2003).
                partial_omega2=df * (f - 1) / (df * (f - 1) + y.size),
            )
        )
    return Factorial(tuple(effects), df_residual, ss_residual, error, ss_total)


def _contrasts(levels: Sequence[object]) -> Floats:
    """Sum-to-zero coding, shape (n, levels - 1)."""
    names = list(dict.fromkeys(levels))
    code = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
    return np.asarray(code[[names.index(level) for level in levels]])


@dataclass(frozen=True)
class Interaction:
    """`levels` are the places of the clearest contrast: two of the first factor, and two of the second.

    `pair`: the ratio of the second to the first of the one factor, at the second over that at the first of the other.
    `needed`: repetitions that would show a contrast of the margin; None of exact results.
    """

    levels: tuple[tuple[int, int], tuple[int, int]]
    pair: Pair
    present: bool
    absent: bool
    needed: int | None


def interaction(
    means: ConditionMeans, grid: Mapping[tuple[int, int], int], confidence: float, *, share: int = 1
) -> Interaction | None:
    """`grid`: levels of both factors -> condition; None where no two levels of each have all four conditions.

    `share` pairs of factors share the risk.
    """
    corners = [
        (one, other)
        for one in combinations(sorted({place[0] for place in grid}), 2)
        for other in combinations(sorted({place[1] for place in grid}), 2)
        if all(place in grid for place in product(one, other))
    ]
    if not corners:
        return None
    places = np.array([[grid[place] for place in product(*corner)] for corner in corners])
    family = Contrasts(means, confidence, share=share)
    differences = means.estimates[places] @ np.array([1.0, -1.0, -1.0, 1.0])
    differences[np.abs(differences) <= 1e-12 * max(float(np.abs(means.estimates).max()), 1.0)] = 0.0
    parts = means.squared_errors[places]
    errors, df = np.sqrt(parts.sum(axis=1)), means.df_of_sums(parts, places)
    level = 1 - family.risk / 2 / len(corners)
    reach = errors * by_df(df, lambda one: distributions.t_ppf(level, one))
    tolerance = errors * by_df(df, lambda one: distributions.t_ppf(1 - family.risk, one))
    clearest = int(np.argmax(np.abs(differences) / np.where(reach > 0, reach, 1.0)))
    error, p = float(errors[clearest]), float(differences[clearest] == 0)
    if error > 0:
        t = abs(float(differences[clearest])) / error
        p = min(1.0, 2 * distributions.t_sf(t, grid_df(float(df[clearest]))) * len(corners) * share)
    return Interaction(
        levels=corners[clearest],
        pair=family.as_pair(differences[clearest], reach[clearest], p),
        present=bool((np.abs(differences) > reach).any()),
        absent=bool((np.abs(differences) + tolerance <= family.bound).all()),
        needed=None
        if means.exact
        else repetitions_needed(family, lambda one: distributions.t_ppf(level, one), errors=4),
    )


# Lines


_EXACT = 1e-24
"""Residuals smaller than this share of the data's spread are rounding: the fit is exact."""
_LARGE = 20_000_000
"""Rows times columns times columns from which on normal equations are worth it."""
_NO_DIRECTION = 1e-11
"""Eigenvalues below this share of the largest are rounding: the design is deficient there."""


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x. `slope_interval` is Student's; `aic` compares lines over one y (None: exact fit)."""

    n: int
    slope: float
    intercept: float
    slope_se: float
    intercept_se: float
    slope_interval: Interval
    df_residual: int
    ss_residual: float
    residual_stddev: float
    r2: float
    f: float | None
    p: float
    aic: float | None

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x


@dataclass(frozen=True)
class LackOfFit:
    """Does the line miss the level means by more than repetitions scatter? A small `p` says that it does."""

    f: float
    df_lack: int
    df_pure: int
    p: float


def residual_ss(design: Floats, y: Floats) -> tuple[float, int]:
    """Sum of squared residuals and rank of `design`, which may be deficient (empty cells).

    Large designs by their normal equations, a fiftieth of the work; a second step on the residuals restores the digits
    that squaring the condition number costs (Bjorck, "Numerical Methods for Least Squares Problems", SIAM 1996, 2.9).
    """
    if design.size * design.shape[1] <= _LARGE:
        coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
        return float(np.sum((y - design @ coefficients) ** 2)), int(rank)
    sizes, vectors = np.linalg.eigh(design.T @ design)
    kept = sizes > sizes[-1] * _NO_DIRECTION
    basis = vectors[:, kept] / np.sqrt(sizes[kept])
    residuals = y
    for _ in range(2):
        residuals = residuals - design @ (basis @ (basis.T @ (design.T @ residuals)))
    return float(np.sum(residuals**2)), int(kept.sum())


def fit_line(x: Floats, y: Floats, confidence: float) -> Line | Undefined:
    """Ordinary least squares of y on x. `aic`, n ln(RSS / n) + 2 k, counts the variance as a parameter.

    Akaike, "A new look at the statistical model identification" (IEEE Transactions on Automatic Control 19, 1974).
    """
    x, y = as_floats(x), as_floats(y)
    if x.size < 3:
        return Undefined(f"{x.size} values; a line with an interval needs at least 3")
    sxx, syy = sum_of_squares(x), sum_of_squares(y)
    if sxx == 0:
        return Undefined("all values are at one level")
    # About the means, which keeps the digits of a large offset.
    x_mean, y_mean = mean_of(x), mean_of(y)
    slope = float(np.sum((x - x_mean) * (y - y_mean))) / sxx
    ss_residual = float(np.sum((y - y_mean - slope * (x - x_mean)) ** 2))
    exact = ss_residual <= _EXACT * syy
    ss_residual = 0.0 if exact else ss_residual
    n, df = int(x.size), int(x.size) - 2
    variance = ss_residual / df
    slope_se = float(np.sqrt(variance / sxx))
    half = float(distributions.t_ppf((1 + confidence) / 2, df)) * slope_se
    f = (syy - ss_residual) / variance if variance > 0 else None
    return Line(
        n=n,
        slope=slope,
        intercept=y_mean - slope * x_mean,
        slope_se=slope_se,
        intercept_se=float(np.sqrt(variance * (1 / n + x_mean**2 / sxx))),
        slope_interval=Interval(slope - half, slope + half, confidence, "t"),
        df_residual=df,
        ss_residual=ss_residual,
        residual_stddev=float(np.sqrt(variance)),
        r2=1 - ss_residual / syy if syy > 0 else 0.0,
        f=f,
        p=float(distributions.f_sf(f, 1, df)) if f is not None else (0.0 if slope != 0 else 1.0),
        aic=None if exact else float(n * np.log(ss_residual / n) + 2 * 3),
    )


def lack_of_fit(x: Floats, y: Floats, ss_residual: float, parameters: int = 2) -> LackOfFit | Undefined:
    """F test of a fit, of as many parameters, against the level means.

    Draper and Smith, "Applied Regression Analysis" (1998), chapter 2.
    """
    x, y = as_floats(x), as_floats(y)
    levels = np.unique(x)
    df_lack, df_pure = levels.size - parameters, x.size - levels.size
    if df_lack < 1:
        return Undefined(f"{levels.size} levels only: {parameters} parameters always meet their means")
    if df_pure < 1:
        return Undefined("no level was repeated")
    pure = float(sum(sum_of_squares(y[x == level]) for level in levels))
    if pure == 0:
        return Undefined("the repetitions of every level are identical")
    f = max(ss_residual - pure, 0.0) / df_lack / (pure / df_pure)
    return LackOfFit(f, int(df_lack), int(df_pure), float(distributions.f_sf(f, df_lack, df_pure)))
