"""Two modes of a response: whole repetitions that ran at one of two levels, as with and without garbage collection.

Such values have no scatter about a mean. Few repetitions of a condition easily lie in one mode alone: then they agree
with each other, and differ from the next condition by the ratio of the modes, whatever the conditions are.

Two modes are found within conditions, on the logarithmic scale, so that levels which differ by the same ratio are none:
each condition's values are split at the place where one ratio, common to all, leaves the least sum of squares. They
are two modes if at least two conditions have both, and the ratio is many deviations of what is left. The limit
(`_separation`) is passed by fewer than 1 % of responses with one mode, normal or lognormal, with Student's deviations
(2.5 degrees of freedom), or with scatters from 1 to 10 % (benches/inference_coverage.py --modes). Tools such as the dip
test (Hartigan and Hartigan, Annals of Statistics 13, 1985) need one large sample with one centre.

Deliberately not here: what is compared then. That is `condition_means.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ioassay.stats.result import Floats, Undefined

Bools = npt.NDArray[np.bool_]
LEAST_RATIO = 1.25
"""Modes closer than this are scatter, or the steps of a number that a tool rounds."""
MISTAKEN = 0.03
"""Expected number of conditions that have repetitions of the rarer mode only, and are taken for ones of the other."""
MOST = 1000
FEWEST_DF = 3
"""Degrees of freedom below which nothing is known of the scatter within modes."""
SEPARATION = 8.5
"""The distance of two modes in deviations within them, beyond which they are two."""
_CANDIDATES = 64
_GRID = 40
_DRAWS = 9999
_ROUNDING = 1e-9
"""Degrees of freedom that count as none."""
_AGAIN = 3.5
"""Deviations within the modes by which the distance of two conditions may miss that of the modes."""


@dataclass(frozen=True)
class Modes:
    """`states[i]`: which repetitions of condition i, in the order they ran, are in the upper mode.

    `ratio`: the upper mode over the lower. A condition whose repetitions are all in one mode counts as being in the
    usual one, of which more are known.
    """

    ratio: float
    states: tuple[Bools, ...]

    @cached_property
    def mixed(self) -> tuple[bool, ...]:
        """Of each condition: it has both modes."""
        return tuple(bool(state.any() and not state.all()) for state in self.states)

    @cached_property
    def _posterior(self) -> tuple[Floats, Floats, Floats]:
        """The chances to enter the upper mode and to leave it, from one repetition to the next, with their weights.

        On a grid, with a uniform prior. A condition in one mode alone may be in either.
        """
        grid = (np.arange(_GRID) + 0.5) / _GRID
        enter, leave = (one.ravel() for one in np.meshgrid(grid, grid))
        logs = np.zeros(enter.size)
        for state, mixed in zip(self.states, self.mixed, strict=True):
            if not mixed:
                stays = state.size - 1
                logs += np.log((enter * (1 - leave) ** stays + leave * (1 - enter) ** stays) / (enter + leave))
                continue
            logs += np.log(np.where(state[0], enter, leave) / (enter + leave))
            for before, chance in ((False, enter), (True, leave)):
                moves = int(np.sum((state[:-1] == before) & (state[1:] != before)))
                stays = int(np.sum((state[:-1] == before) & (state[1:] == before)))
                logs += moves * np.log(chance) + stays * np.log(1 - chance)
        weights = np.exp(logs - logs.max())
        return enter, leave, weights / weights.sum()

    @cached_property
    def share(self) -> float:
        """The share of repetitions in the lower mode."""
        enter, leave, weights = self._posterior
        return float(np.sum(weights * leave / (enter + leave)))

    @property
    def usual(self) -> bool:
        """Whether the upper mode is the usual one."""
        return self.share <= 0.5

    def mistaken(self, repetitions: Sequence[int]) -> float:
        """How many conditions of so many repetitions each are expected to show the rarer mode only."""
        enter, leave, weights = self._posterior
        sizes, number = np.unique(np.asarray(repetitions), return_counts=True)
        upper = enter[:, None] * (1 - leave[:, None]) ** (sizes - 1)
        lower = leave[:, None] * (1 - enter[:, None]) ** (sizes - 1)
        rarer = np.minimum(upper, lower) / (enter + leave)[:, None]
        return float(np.sum(weights[:, None] * rarer * number))

    @cached_property
    def needed(self) -> int:
        """The fewest repetitions of each condition with which a comparison carries, MOST at most."""
        low, high = 1, 2
        while high < MOST and self.mistaken([high] * len(self.states)) > MISTAKEN:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            above = self.mistaken([middle] * len(self.states)) > MISTAKEN
            low, high = (middle, high) if above else (low, middle)
        return min(high, MOST)

    @property
    def carries(self) -> bool:
        return self.mistaken([state.size for state in self.states]) <= MISTAKEN

    def in_usual_mode(self, groups: Sequence[Floats]) -> list[Floats]:
        """The values as if all repetitions had run in the usual mode."""
        factor = self.ratio if self.usual else 1 / self.ratio
        return [
            np.where(state == self.usual, group, group * factor) if mixed else group
            for group, state, mixed in zip(groups, self.states, self.mixed, strict=True)
        ]

    @cached_property
    def p_of_shares(self) -> float:
        """That all conditions have the same share of the rarer mode: an exact test, given both margins.

        The statistic is Pearson's; of 9999 drawn tables (Hope, Journal of the Royal Statistical Society B 30, 1968).
        """
        sizes = np.array([state.size for state in self.states])
        pairs = zip(self.states, self.mixed, strict=True)
        rarer = np.array([int((state != self.usual).sum()) if mixed else 0 for state, mixed in pairs])
        expected = sizes * rarer.sum() / sizes.sum()
        drawn = np.random.default_rng(1).multivariate_hypergeometric(sizes, int(rarer.sum()), _DRAWS)
        statistic = np.sum((np.vstack([rarer, drawn]) - expected) ** 2 / sizes, axis=1)
        return float(np.mean(statistic >= statistic[0] - 1e-9))

    @property
    def undefined(self) -> Undefined:
        """Why no means are compared where they do not carry."""
        return Undefined(
            f"values lie in two modes, one {self.ratio:.2g} times the other ({100 * self.share:.0f} % in the lower), "
            f"which needs {self.needed} repetitions"
        )


def modes(groups: Sequence[Floats]) -> Modes | None:
    """The two modes of a response; `groups[i]` are the values of condition i, in the order they ran.

    None where it has one mode, where the data do not show two, and where a value is not above 0.
    """
    if not groups or min(float(group.min()) for group in groups) <= 0:
        return None
    logs = [np.log(group) for group in groups]
    least, sizes = math.log(LEAST_RATIO), np.array([values.size for values in logs])
    df = int(sizes.sum()) - sizes.size - 1
    ranges = np.array([float(np.ptp(values)) for values in logs])
    if df < FEWEST_DF or (ranges < least).all():
        return None
    inside, apart, weights, whole = _splits(logs)
    # The ratio of each condition that is split where this leaves the least; of many a few.
    own = np.take_along_axis(apart, inside.argmin(axis=1)[:, None], axis=1)[:, 0]
    candidates = np.unique(own[own >= least])
    if candidates.size > _CANDIDATES:
        candidates = np.quantile(candidates, np.linspace(0, 1, _CANDIDATES))
    best = math.inf, 0.0, whole, whole < 0, np.zeros(sizes.size, dtype=np.intp)
    rows = np.arange(sizes.size)
    for distance in candidates.tolist():
        place = (inside + weights * (apart - distance) ** 2).argmin(axis=1)
        parts, lengths, heavy = (one[rows, place] for one in (inside, apart, weights))
        mixed = parts + heavy * (lengths - distance) ** 2 < whole
        distance = float(np.sum((heavy * lengths)[mixed]) / np.sum(heavy[mixed])) if mixed.any() else 0.0
        squares = np.where(mixed, parts + heavy * (lengths - distance) ** 2, whole)
        if distance >= least and (relative := float(squares.sum()) / distance**2) < best[0]:
            best = relative, distance, squares, mixed, place
    relative, distance, squares, mixed, place = best
    strict = 1 if mixed.sum() > 1 else 2
    if distance < strict * least or relative * (strict * (SEPARATION + 20 / df)) ** 2 > df:
        return None
    own_df = float(sizes[mixed].sum() - mixed.sum() - 1)
    if float(squares[mixed].sum()) * (strict * SEPARATION) ** 2 > max(own_df, _ROUNDING) * distance**2:
        return None
    if mixed.sum() == 1:
        # One condition may just scatter more than others: two modes, if conditions differ by this ratio as well.
        centres = np.array([float(values.mean()) for values, both in zip(logs, mixed, strict=True) if not both])
        missed = np.abs(centres[:, None] - centres[None, :] - distance)
        if not (missed <= _AGAIN * distance * math.sqrt(relative / df)).any():
            return None
    states = []
    for values, both, split in zip(logs, mixed, place, strict=True):
        upper = np.zeros(values.size, dtype=np.bool_)
        if both:
            upper[np.argsort(values, kind="stable")[split + 1 :]] = True
        states.append(upper)
    return Modes(math.exp(distance), tuple(states))


def _splits(logs: Sequence[Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """Of each condition and split of its sorted values, shape (k, n - 1): the squares within both parts, the distance
    of their means, and the weight of that in the sum of squares. Then the squares without a split, shape (k,)."""
    most = max(values.size for values in logs) - 1
    inside, apart, weights = (
        np.full((len(logs), most), np.inf),
        np.zeros((len(logs), most)),
        np.zeros((len(logs), most)),
    )
    whole = np.zeros(len(logs))
    for row, values in enumerate(logs):
        centred = np.sort(values) - values.mean()
        n, low = values.size, np.arange(1, values.size)
        whole[row] = float(np.sum(centred**2))
        below = np.cumsum(centred)[:-1]
        apart[row, : n - 1] = -below / (n - low) - below / low
        weights[row, : n - 1] = low * (n - low) / n
        inside[row, : n - 1] = np.maximum(whole[row] - weights[row, : n - 1] * apart[row, : n - 1] ** 2, 0.0)
    return inside, apart, weights, whole
