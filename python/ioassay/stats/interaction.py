"""Does the difference between two levels of a factor depend on another factor? Read from fitted condition means.

Two levels of each of two factors give four means, and one contrast: the ratio between the levels of the first, divided
by the same ratio at the other level of the second (on the raw scale differences of differences). All such contrasts
hold at once (Bonferroni; their degrees of freedom are Satterthwaite's). That none is beyond the margin is an
intersection of one-sided tests, each at the full risk (Berger, Technometrics 24, 1982).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ioassay.stats import distributions
from ioassay.stats.condition_means import ConditionMeans, Scale
from ioassay.stats.contrasts import Contrasts, Pair, bounded_exp, by_df, grid_df
from ioassay.stats.power import MOST, POWER, fewest
from ioassay.stats.result import Interval

Ints = npt.NDArray[np.int64]
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0])


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
        for one in itertools.combinations(sorted({place[0] for place in grid}), 2)
        for other in itertools.combinations(sorted({place[1] for place in grid}), 2)
        if all(place in grid for place in itertools.product(one, other))
    ]
    if not corners:
        return None
    places = np.array([[grid[place] for place in itertools.product(*corner)] for corner in corners])
    family = Contrasts(means, confidence, share=share)
    differences = means.estimates[places] @ _SIGNS
    differences[np.abs(differences) <= 1e-12 * max(float(np.abs(means.estimates).max()), 1.0)] = 0.0
    parts = means.squared_errors[places]
    errors, df = np.sqrt(parts.sum(axis=1)), means.df_of_sums(parts, places)
    reach = errors * by_df(df, lambda one: distributions.t_ppf(1 - family.risk / 2 / len(corners), one))
    tolerance = errors * by_df(df, lambda one: distributions.t_ppf(1 - family.risk, one))
    clearest = int(np.argmax(np.abs(differences) / np.where(reach > 0, reach, 1.0)))
    return Interaction(
        levels=corners[clearest],
        pair=_pair(family, [float(one[clearest]) for one in (differences, errors, reach, df)], len(corners)),
        present=bool((np.abs(differences) > reach).any()),
        absent=bool((np.abs(differences) + tolerance <= family.bound).all()),
        needed=None if means.exact else _needed(family, len(corners)),
    )


def _pair(family: Contrasts, clearest: Sequence[float], contrasts: int) -> Pair:
    """`clearest`: difference, error, half-width of the interval, degrees of freedom."""
    difference, error, reach, df = clearest
    p = float(difference == 0)
    if error > 0:
        p = min(1.0, 2 * distributions.t_sf(abs(difference) / error, grid_df(df)) * contrasts * family.share)
    ends = (difference, difference - reach, difference + reach)
    if family.means.scale == Scale.LOG:
        ends = (bounded_exp(ends[0]), bounded_exp(ends[1]), bounded_exp(ends[2]))
    return Pair(ends[0], Interval(*ends[1:], family.confidence, "simultaneous"), p)


def _needed(family: Contrasts, contrasts: int) -> int:
    """As for pairs (`power.py`), with the four errors of a contrast."""
    means = family.means
    if family.bound == 0:
        return MOST
    scatter = math.sqrt(float((means.squared_errors * means.sizes).mean())) / family.bound
    level = 1 - family.risk / 2 / contrasts

    def seen(n: int) -> bool:
        df = float(means.sizes.size * (n - 1))
        return (distributions.t_ppf(level, df) + distributions.t_ppf(POWER, df)) * scatter * 2 / math.sqrt(n) <= 1

    return fewest(seen)
