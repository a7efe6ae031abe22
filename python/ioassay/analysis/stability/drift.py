"""Does the response drift over the run? Each repetition is seen beside the others of its condition, in run order.

The trials of one pass over the conditions share whatever happened to the machine meanwhile, so they are not
independent observations of a drift: the pass is the unit where the run has passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding
from ioassay.stats import distributions
from ioassay.stats.result import Floats, Interval, Undefined, plain
from ioassay.stats.trend_tests import Correlation, Kendall, Runs, mann_kendall, runs_test, spearman

PASS, TRIAL = "pass", "trial"
RANKABLE = 5
"""Passes from which even a perfect trend has a rank test below 5 %."""
NOTABLE = 0.02
"""A drift below this share of the mean over the whole run is said, but is no warning."""


@dataclass(frozen=True)
class Drift:
    """Change over the run, as shares of the mean (0.03: 3 % more at its end), and tests of there being none.

    `slope_per_trial` is the slope of ln(value) over the order, within conditions; `interval` and `p` belong to it.
    `unit`: what was counted, PASS or TRIAL (no passes: one condition, or conditions that did not take turns).
    `kendall`: the Mann-Kendall test of the passes' means, else the seasonal one with conditions as seasons.
    `spearman` and `runs` look at all trials' deviations, as if these were independent.
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


def over_run(found: Cells, confidence: float) -> Finding | None:
    """One finding; None where fewer than three trials repeat something.

    A drift is claimed where the rank test and the interval of the slope agree; of three or four passes the rank test
    can say nothing, and the interval decides.
    """
    drift = measure(found, confidence)
    if isinstance(drift, Undefined):
        return None
    p = _rank_p(drift)
    p = drift.p if p is None else p
    drifts = p < 1 - confidence and not drift.interval.low <= 0 <= drift.interval.high
    return Finding(
        study=found.study,
        question="stability",
        response=found.response,
        title=f"{phrases.name(found.response)}: drift over the run",
        statement=_statement(drift, p, drifts, 1 - confidence),
        statistics={**plain(drift), "drifts": drifts},
        caveats=_caveats(found, drifts),
        severity="warning" if drifts and abs(drift.change) >= NOTABLE else "info",
    )


def measure(found: Cells, confidence: float) -> Drift | Undefined:
    """Least squares over order with a level of its own for each condition (analysis of covariance), and rank tests.

    Where the run has passes, over their mean deviations: the classic analysis of covariance would count every trial.
    """
    cells = [cell for cell in found.cells if cell.values.size > 1]
    if not cells or min(cell.values.min() for cell in cells) <= 0:
        return Undefined("no positive values were repeated")
    y = np.concatenate([_centred(np.log(cell.values)) for cell in cells])
    x = np.concatenate([_centred(cell.order.astype(np.float64)) for cell in cells])
    order = np.concatenate([cell.order for cell in cells]).astype(np.float64)
    span, trials, in_order = float(np.ptp(order)), y.size, np.argsort(order, kind="stable")
    rank_correlation, waves = spearman(order, y), runs_test(y[in_order])
    passes = _passes(cells, y, order)
    if passes is not None:
        x, y = passes
        df, ranked = y.size - 2, [y]
    else:
        df = y.size - len(cells) - 1
        ranked = [cell.values[np.argsort(cell.order, kind="stable")] for cell in cells]
    sxx = float(np.sum(x**2))
    if df < 1 or sxx == 0:
        return Undefined("too few repetitions")
    slope = float(np.sum(x * y)) / sxx
    error = float(np.sqrt(np.sum((y - slope * x) ** 2) / df / sxx))
    half = float(distributions.t_ppf((1 + confidence) / 2, df)) * error
    p = float(2 * distributions.t_sf(abs(slope) / error, df)) if error > 0 else float(slope == 0)
    return Drift(
        change=float(np.expm1(slope * span)),
        interval=Interval(
            float(np.expm1(span * (slope - half))), float(np.expm1(span * (slope + half))), confidence, "t"
        ),
        p=p,
        slope_per_trial=slope,
        unit=TRIAL if passes is None else PASS,
        units=int(y.size),
        trials=trials,
        kendall=mann_kendall(ranked),
        spearman=rank_correlation,
        runs=waves,
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


def _rank_p(drift: Drift) -> float | None:
    """The rank test's p; None where there is none, or too few passes for it ever to be small."""
    if not isinstance(drift.kendall, Kendall) or (drift.unit == PASS and drift.units < RANKABLE):
        return None
    return drift.kendall.p


def _centred(values: Floats) -> Floats:
    shifted = values - values[0]
    return np.asarray(shifted - shifted.mean())


def _statement(drift: Drift, p: float, drifts: bool, risk: float) -> str:
    low, high = (phrases.points(end, sign=True) for end in (drift.interval.low, drift.interval.high))
    within = f"({phrases.level(drift.interval.confidence)} interval {low} to {high} %)"
    size = f"{phrases.points(drift.change, sign=True)} % {within}"
    if drifts:
        way = (
            f"{'rises' if drift.change > 0 else 'falls'} over the run by {phrases.points(abs(drift.change))} % {within}"
        )
        return f"It {way} from the first trial to the last ({phrases.p(p)}, {_test(drift)})."
    if p < risk:
        told = f"The rank test sees a drift ({phrases.p(p)}), but its size cannot be told from none"
        return f"{told}: {size} from the first trial to the last."
    return f"No drift over the run can be seen ({phrases.p(p)}); the trend from first to last trial is {size}."


def size_text(seen: Finding) -> str:
    """A claimed drift without its test: `rises by 40 % (95 % interval +18 to +66 %)`."""
    change, bounds = float(seen.statistics["change"]), seen.statistics["interval"]
    low, high = (phrases.points(float(bounds[end]), sign=True) for end in ("low", "high"))
    way = "rises" if change > 0 else "falls"
    return (
        f"{way} by {phrases.points(abs(change))} % ({phrases.level(bounds['confidence'])} interval {low} to {high} %)"
    )


def _test(drift: Drift) -> str:
    if drift.unit == TRIAL:
        return "seasonal Kendall test" if isinstance(drift.kendall, Kendall) else "t test"
    return f"{'t test' if _rank_p(drift) is None else 'Mann-Kendall test'} over {drift.units} passes"


def _caveats(found: Cells, drifts: bool) -> list[str]:
    if drifts:
        return ["Conditions ran in shuffled blocks, so a drift hits all of them alike; it widens every interval."]
    if max(cell.values.size for cell in found.cells) < 5:
        return ["With so few repetitions only a strong drift would be seen."]
    return []
