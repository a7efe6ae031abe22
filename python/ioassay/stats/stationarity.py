"""Does something drift with time, or has it settled? A rank test that supposes no shape, and SNIA's steady state.

That is five rounds that neither scatter nor lean: over a window of five, the difference of the largest and the smallest
value is at most 20 % of their average, and the line fitted to them rises or falls by at most 10 % of the average over
the window (SNIA, "Solid State Storage Performance Test Specification" version 2.0.2, 2020, definition of steady state).
Deliberately not here: what a round is; the caller gives one value a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.result import Floats, Undefined, as_floats


@dataclass(frozen=True)
class Kendall:
    """The test of Mann and Kendall: `s` counts rising minus falling pairs, `z` is normal where nothing drifts.

    `tau` = s / number of pairs. `strata` is the number of sequences that were summed.
    """

    s: float
    variance: float
    z: float
    p: float
    tau: float
    strata: int


def mann_kendall(sequences: Sequence[Floats]) -> Kendall | Undefined:
    """Trend over the order of values, summed over `sequences` that must not be compared with each other.

    Mann, Econometrica 13 (1945); Kendall, "Rank Correlation Methods" (1975), with ties and continuity correction;
    the sum over strata is the seasonal Kendall test of Hirsch, Slack and Smith (Water Resources Research 18, 1982).
    """
    arrays = [array for array in map(as_floats, sequences) if array.size >= 3]
    if not arrays:
        return Undefined("no condition has 3 repetitions")
    s = float(sum(np.sum(np.triu(np.sign(array[None, :] - array[:, None]), 1)) for array in arrays))
    variance = 0.0
    for array in arrays:
        n, ties = array.size, np.unique(array, return_counts=True)[1]
        variance += float((n * (n - 1) * (2 * n + 5) - np.sum(ties * (ties - 1) * (2 * ties + 5))) / 18)
    if variance == 0:
        return Undefined("all repetitions are equal")
    z = (s - np.sign(s)) / np.sqrt(variance)
    pairs = sum(array.size * (array.size - 1) / 2 for array in arrays)
    return Kendall(s, variance, float(z), float(2 * distributions.normal_sf(abs(z))), s / pairs, len(arrays))


ROUNDS = 5
MAX_RANGE = 0.20
MAX_SLOPE = 0.10


@dataclass(frozen=True)
class Window:
    """One window that ends with round `last` (from 0). `range` and `slope` are shares of the window's average."""

    last: int
    average: float
    range: float
    slope: float

    @property
    def steady(self) -> bool:
        return self.range <= MAX_RANGE and self.slope <= MAX_SLOPE


@dataclass(frozen=True)
class SteadyState:
    """`attained`: the last window is steady. `since`: first round of the first window from which all are, or None."""

    attained: bool
    since: int | None
    final: Window
    rounds: int


def steady_state(values: Floats) -> SteadyState | Undefined:
    """Judge one value a round, in order of time; Undefined for fewer than five rounds."""
    array = as_floats(values)
    if array.size < ROUNDS:
        return Undefined(f"{array.size} rounds; steady state is judged over {ROUNDS}")
    windows = [_window(array, last) for last in range(ROUNDS - 1, array.size)]
    steady = [window.steady for window in windows]
    unsteady = [number for number, good in enumerate(steady) if not good]
    first = unsteady[-1] + 1 if unsteady else 0
    return SteadyState(steady[-1], first if steady[-1] else None, windows[-1], int(array.size))


def _window(array: Floats, last: int) -> Window:
    values = array[last - ROUNDS + 1 : last + 1]
    average = float(values.mean())
    if average == 0:
        spread = float(np.ptp(values))
        return Window(last, 0.0, 0.0 if spread == 0 else float("inf"), 0.0)
    x = np.arange(ROUNDS) - (ROUNDS - 1) / 2
    slope = float(np.sum(x * (values - average)) / np.sum(x**2))
    return Window(last, average, float(np.ptp(values)) / abs(average), abs(slope) * (ROUNDS - 1) / abs(average))
