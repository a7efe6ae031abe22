"""How much runs of one thing differ from each other, and what a difference between two of them shows then.

The mixed model of a condition on one machine: ln(value) is a mean, plus a deviation of the run, plus one of the
repetition. Repetitions do not tell the deviation of their run, so runs are the units: those of a history, or turns of
one session. The variance between runs is that of their means without what the repetitions account for (unweighted
means: Burdick and Graybill, "Confidence Intervals on Variance Components", 1992, chapter 6).

Runs follow each other, as a drive fills or a room warms, and autocorrelated runs look calmer than the next one is. Few
runs do not tell the autocorrelation, so the strongest that is provided for is taken: for the expected squares and for
their degrees of freedom (Satterthwaite's, of a quadratic form; Box, Annals of Mathematical Statistics 25, 1954).

Conditions share what they know of the scatter (`condition_means.moderated`) as far as their deviations are independent:
where a slow run is slow in all of them, six conditions know no more than one.

Deliberately not here: which runs belong to the present state (`change_points.py`), and verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ioassay.stats.condition_means import Ints, moderated
from ioassay.stats.contrasts import TIE, Ratio, ratio_interval
from ioassay.stats.distributions import t_sf
from ioassay.stats.result import Floats

FEWEST_RUNS = 5
"""Of a history; fewer tell next to nothing about the scatter between runs."""
FEWEST_TURNS = 3
STRONGEST = 0.7
"""Autocorrelation of successive runs up to which verdicts hold. Of turns all: pairs cancel most of it."""
_OF_TURNS = 0.5
"""The one that makes neighbouring pairs of turns follow each other most."""


_MOST_POOLED = 4.0
"""Sums of pairs scatter as their differences do where turns are independent, and more where they follow each other: up
to this ratio of squares they tell the variance, too (Paull, Annals of Mathematical Statistics 21, 1950). A lower one
finds more, and pools where the differences happen to scatter less."""


@dataclass(frozen=True)
class Series:
    """A condition over m runs in their order, of which the last is compared with those of the span before it.

    `means`: NaN where a run lacks it; `variances`: squared relative deviation of a run's repetitions, NaN of one; their
    number `sizes`. `spans`: between two changes all runs have one number. Each of shape (m,).
    """

    means: Floats
    variances: Floats
    sizes: Ints
    spans: Ints


@dataclass(frozen=True)
class _Sample:
    """An estimate, and the deviations that tell its variance; variances are those of one unit.

    `expected`: of the sum of squares, `growth`: of the estimate; `own`: what repetitions account for in the variance of
    a unit, and `own_error` in that of the estimate.
    """

    estimate: float
    deviations: Floats
    count: int
    expected: float
    df: float
    growth: float
    own: float = 0.0
    own_error: float = 0.0


def turn_ratios(pairs: Sequence[tuple[Floats, Floats]]) -> list[Ratio | None]:
    """The mean of B divided by that of A, for each condition; None with fewer than FEWEST_TURNS pairs.

    `pairs[i]` are the values of A and B in n pairs of turns, each of shape (n,), in the order A B, B A, A B, …: a drift
    along a line cancels over two pairs. NaN: a turn without a value. The variance is that of the differences of
    relative deviations (delta method, as in `condition_means`).
    """
    return _ratios([_of_turns(a, b) for a, b in pairs])


def run_ratios(series: Sequence[Series]) -> list[Ratio | None]:
    """The last run divided by the runs before it, for each condition; None with fewer than FEWEST_RUNS to compare with.

    All series have the same runs.
    """
    return _ratios([_of_runs(one) for one in series])


def _of_turns(a: Floats, b: Floats) -> _Sample | None:
    present = np.isfinite(a) & np.isfinite(b)
    if int(present.sum()) < FEWEST_TURNS:
        return None
    means = float(a[present].mean()), float(b[present].mean())
    if min(means) <= 0:
        return None
    n = present.size
    contrast = np.kron(np.eye(n), [-1.0, 1.0])
    contrast[1::2] *= -1
    covariance = contrast @ _autocorrelation(2 * n, _OF_TURNS) @ contrast.T
    covariance /= covariance[0, 0]
    deviations = np.where(present, b / means[1] - a / means[0], 0.0)
    weights = present / present.sum()
    spans = np.where(present, 0, -1 - np.arange(n))
    growth = float(weights @ covariance @ weights)
    found = _sample(math.log(means[1] / means[0]), deviations, spans, covariance, growth)
    sums = np.where(present, b / means[1] + a / means[0] - 2.0, 0.0)
    if sums @ sums > _MOST_POOLED * (deviations @ deviations):
        return replace(found, deviations=np.concatenate([deviations, np.zeros(n)]))
    found = replace(found, expected=found.expected + found.count, df=found.df + found.count, count=2 * found.count)
    return replace(found, deviations=np.concatenate([deviations, sums]))


def _of_runs(series: Series) -> _Sample | None:
    known = np.isfinite(series.means) & (series.means > 0)
    earlier = np.flatnonzero(known[:-1])
    if not known[-1] or not earlier.size:
        return None
    logs = np.log(np.where(known, series.means, 1.0))
    spans = np.where(known, series.spans, -1 - np.arange(known.size))  # a missing one is a span of its own
    base = spans == spans[earlier[-1]]
    if known.size - np.unique(spans).size < FEWEST_RUNS - 1:
        return None
    weights = np.where(base, -1.0 / base.sum(), 0.0)
    weights[-1] = 1.0
    covariance = _autocorrelation(known.size, STRONGEST)
    growth = max(float(weights @ covariance @ weights), float(weights @ weights))
    centred = logs - np.array([logs[spans == one].mean() for one in spans])
    repeated = known & np.isfinite(series.variances)
    freedom = series.sizes[repeated] - 1
    scatter = float(series.variances[repeated] @ freedom / freedom.sum()) if freedom.sum() else 0.0
    errors = scatter / series.sizes
    found = _sample(float(weights @ logs), np.where(known, centred, np.nan), spans, covariance, growth)
    parts = 1 - 1 / np.array([np.sum(spans == one) for one in spans])  # what each adds to the expected squares
    return replace(found, own=float(parts @ errors / parts.sum()), own_error=float(weights**2 @ errors))


def _sample(estimate: float, deviations: Floats, spans: Ints, covariance: Floats, growth: float) -> _Sample:
    """With what the squares about the mean of each span are expected to be, by the covariance of the units."""
    together = np.equal.outer(spans, spans)
    centring = np.eye(spans.size) - together / together.sum(axis=1)
    product = centring @ covariance
    expected = float(np.trace(product))
    df = expected**2 / float(np.sum(product * product.T))
    return _Sample(estimate, deviations, round(float(np.trace(centring))), expected, df, growth)


def _autocorrelation(units: int, first: float) -> Floats:
    places = np.arange(units)
    found: Floats = first ** np.abs(places[:, None] - places).astype(np.float64)
    return found


def _ratios(samples: Sequence[_Sample | None]) -> list[Ratio | None]:
    known = [one for one in samples if one is not None]
    if not known:
        return [None] * len(samples)
    table = np.nan_to_num(np.stack([one.deviations for one in known]))
    df = np.array([one.df for one in known])
    each = np.sum(table**2, axis=1) / np.array([one.count for one in known])
    variances, prior_df = moderated(each * df, df)
    most_df = float(df.mean()) * _independent(table)
    ratios = iter(
        _ratio(one, float(variance), min(prior_df + one.df, most_df))
        for one, variance in zip(known, variances, strict=True)
    )
    return [None if one is None else next(ratios) for one in samples]


def _ratio(sample: _Sample, variance: float, df: float) -> Ratio:
    between = max(variance - sample.own, 0.0) * sample.count / sample.expected
    se = math.sqrt(sample.growth * between + sample.own_error)
    estimate = 0.0 if abs(sample.estimate) <= TIE else sample.estimate
    p = 2 * t_sf(abs(estimate) / se, df) if se else float(estimate == 0)
    return Ratio(math.exp(estimate), ratio_interval(estimate, se, df, 0.95), se, df, p)


def _independent(table: Floats) -> float:
    """How many of the conditions are independent, by the squares of their correlations, which those of variances are.

    Few runs overstate correlations, which errs to the safe side.
    """
    norms = np.sqrt(np.sum(table**2, axis=1))
    directions = table[norms > 0] / norms[norms > 0, None]
    return len(directions) ** 2 / float(np.sum((directions @ directions.T) ** 2)) if len(directions) else 1.0
