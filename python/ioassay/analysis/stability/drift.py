"""Does the response drift over the run? Each repetition is compared with the others of its condition, in run order.

A model of its own: that of condition means knows no time, and takes out whole passes as blocks. Both use deviations
from the mean of the own condition only, so that a drift says nothing about conditions and cannot contradict what is
said of them. The trials of one pass share whatever happened to the machine meanwhile, so they are not independent
observations of a drift: the pass is the unit where the run has passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.stats import distributions
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Floats, Interval, Undefined
from ioassay.stats.trend_tests import Correlation, Kendall, Runs, mann_kendall, runs_test, spearman

PASS, TRIAL = "pass", "trial"
RANKABLE = 5
"""Passes from which even a perfect trend has a rank test below 5 %."""
NOTABLE = 0.02
"""A drift below this share of the mean over the whole run is reported, but is no warning."""


class Outcome(Enum):
    """What the interval of the change and the rank test show."""

    NO_DRIFT = "no drift"
    """The change over the whole run is certainly within the margin."""
    UNDECIDED = "undecided"
    DRIFT = "drift"


class Test(Enum):
    """The tests that decide."""

    T = "t test"
    SEASONAL_KENDALL = "t and seasonal Kendall tests"
    MANN_KENDALL = "t and Mann-Kendall tests"


@dataclass(frozen=True)
class Drift:
    """Change over the run, as shares of the mean (0.03: 3 % more at its end), and tests of there being none.

    `slope_per_trial` is the slope of ln(value) over the order, within conditions; `interval` and `p` belong to it.
    `unit`: what was counted, PASS or TRIAL (no passes: one condition, or conditions that did not take turns).
    `kendall`: the Mann-Kendall test of the passes' means, else the seasonal one with conditions as seasons.
    `spearman` and `runs` look at all trials' deviations, as if these were independent.

    A drift is claimed where the rank test and the interval of the slope agree; of three or four passes the rank test
    can say nothing, and the interval decides. That there is none is claimed only where the interval is within MARGIN.
    """

    change: float
    interval: Interval
    p: float
    slope_per_trial: float
    unit: str
    units: int
    trials: int
    kendall: Kendall | Undefined
    spearman: Correlation | Undefined
    runs: Runs | Undefined

    @property
    def rank_p(self) -> float | None:
        """The rank test's p; None where there is none, or too few passes for it ever to be small."""
        if not isinstance(self.kendall, Kendall) or (self.unit == PASS and self.units < RANKABLE):
            return None
        return self.kendall.p

    @property
    def deciding_p(self) -> float:
        """The larger one, since all deciding tests must agree."""
        return max(self.p, self.rank_p or 0.0)

    @property
    def test(self) -> Test:
        """The deciding tests."""
        if self.rank_p is None:
            return Test.T
        return Test.MANN_KENDALL if self.unit == PASS else Test.SEASONAL_KENDALL

    @property
    def outcome(self) -> Outcome:
        """A drift, certainly none that matters, or neither."""
        if self.deciding_p < 1 - self.interval.confidence:
            return Outcome.DRIFT
        within = 1 + self.interval.low >= 1 / (1 + MARGIN) and self.interval.high <= MARGIN
        return Outcome.NO_DRIFT if within else Outcome.UNDECIDED

    @property
    def notable(self) -> bool:
        """Return True for a drift that is large enough for a warning."""
        return self.outcome == Outcome.DRIFT and abs(self.change) >= NOTABLE


def drift(found: Cells, confidence: float) -> Drift | None:
    """Least squares over order with a level of its own for each condition (analysis of covariance), and rank tests.

    Where the run has passes, over their mean deviations: the classic analysis of covariance would count every trial.
    None where values are not above 0, or fewer than three trials repeat something.
    """
    cells = [cell for cell in found.cells if cell.measured.size > 1]
    if not cells or min(cell.measured.min() for cell in cells) <= 0:
        return None
    y = np.concatenate([_centred(np.log(cell.measured)) for cell in cells])
    x = np.concatenate([_centred(cell.order.astype(np.float64)) for cell in cells])
    order = np.concatenate([cell.order for cell in cells]).astype(np.float64)
    deviations, passes = y, _passes(cells, y, order)
    if passes is not None:
        x, y = passes
        df, ranked = y.size - 2, [y]
    else:
        df = y.size - len(cells) - 1
        ranked = [cell.measured[np.argsort(cell.order, kind="stable")] for cell in cells]
    sxx = float(np.sum(x**2))
    if df < 1 or sxx == 0:
        return None
    slope = float(np.sum(x * y)) / sxx
    error = float(np.sqrt(np.sum((y - slope * x) ** 2) / df / sxx))
    half = float(distributions.t_ppf((1 + confidence) / 2, df)) * error
    change, low, high = (float(np.expm1(float(np.ptp(order)) * one)) for one in (slope, slope - half, slope + half))
    return Drift(
        change=change,
        interval=Interval(low, high, confidence, "t"),
        p=float(2 * distributions.t_sf(abs(slope) / error, df)) if error > 0 else float(slope == 0),
        slope_per_trial=slope,
        unit=TRIAL if passes is None else PASS,
        units=int(y.size),
        trials=deviations.size,
        kendall=mann_kendall(ranked),
        spearman=spearman(order, deviations),
        runs=runs_test(deviations[np.argsort(order, kind="stable")]),
    )


def _passes(cells: Sequence[Cell], deviations: Floats, order: Floats) -> tuple[Floats, Floats] | None:
    """Order and deviation of each pass, about their means; None where fewer than three passes follow each other."""
    if len(cells) < 2:
        return None
    numbers = np.concatenate([cell.repetition for cell in cells])
    members = [numbers == number for number in np.unique(numbers)]
    ends = [(order[member].min(), order[member].max()) for member in members]
    if len(members) < 3 or any(before[1] >= after[0] for before, after in itertools.pairwise(ends)):
        return None
    places = np.array([order[member].mean() for member in members])
    means = np.array([deviations[member].mean() for member in members])
    return places - places.mean(), means - means.mean()


def _centred(values: Floats) -> Floats:
    shifted = values - values[0]
    return np.asarray(shifted - shifted.mean())
