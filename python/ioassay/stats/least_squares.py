"""Linear least squares: the residuals of any design, and a straight line with its lack of fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, as_floats, mean_of, sum_of_squares

# Residuals smaller than this share of the data's spread are rounding: the fit is exact.
_EXACT = 1e-24
# Rows times columns times columns from which on normal equations are worth it.
_LARGE = 20_000_000
# Eigenvalues below this share of the largest are rounding: the design is deficient there.
_NO_DIRECTION = 1e-11


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x. `slope_interval` is Student's; `aic` compares lines over the same y (None: exact fit).

    `sxx` is the sum of squared deviations of x.
    """

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
    x_mean: float
    sxx: float

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
        x_mean=x_mean,
        sxx=sxx,
    )


def hc3_slope(x: Floats, y: Floats, line: Line, confidence: float) -> tuple[float, Interval, float]:
    """Standard error, interval and p of the slope of `line` whatever the variances of y are.

    HC3: MacKinnon and White, "Some heteroskedasticity-consistent covariance matrix estimators with improved finite
    sample properties" (Journal of Econometrics 29, 1985), as Long and Ervin recommend it (The American Statistician 54,
    2000). A point that alone decides the slope has no residual, and its error is unknown: the interval is infinite.
    """
    if line.ss_residual == 0:
        return 0.0, Interval(line.slope, line.slope, confidence, "exact"), float(line.slope == 0)
    centred = x - line.x_mean
    left = 1 - 1 / line.n - centred**2 / line.sxx
    if left.min() < 1e-12:
        return float("inf"), Interval(float("-inf"), float("inf"), confidence, "HC3"), 1.0
    residuals = (y - line.intercept - line.slope * x) / left
    error = float(np.sqrt(np.sum((centred * residuals) ** 2))) / line.sxx
    half = distributions.t_ppf((1 + confidence) / 2, line.df_residual) * error
    p = 2 * distributions.t_sf(abs(line.slope) / error, line.df_residual) if error > 0 else 0.0
    return error, Interval(line.slope - half, line.slope + half, confidence, "HC3"), p


def lack_of_fit(x: Floats, y: Floats, line: Line) -> LackOfFit | Undefined:
    """F test of the line against the level means: Draper and Smith, "Applied Regression Analysis" (1998), chapter 2."""
    x, y = as_floats(x), as_floats(y)
    levels = np.unique(x)
    df_lack, df_pure = levels.size - 2, x.size - levels.size
    if df_lack < 1:
        return Undefined("two levels only: a line always passes through both means")
    if df_pure < 1:
        return Undefined("no level was repeated")
    pure = float(sum(sum_of_squares(y[x == level]) for level in levels))
    if pure == 0:
        return Undefined("the repetitions of every level are identical")
    f = max(line.ss_residual - pure, 0.0) / df_lack / (pure / df_pure)
    return LackOfFit(f, int(df_lack), int(df_pure), float(distributions.f_sf(f, df_lack, df_pure)))
