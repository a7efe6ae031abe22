"""Does the response drift over the run? Each repetition is seen beside the others of its condition, in run order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ioassay.analysis import wording
from ioassay.analysis.cells import Cells
from ioassay.analysis.finding import Finding
from ioassay.analysis.statistics.result import Floats, Interval, Undefined, plain
from ioassay.analysis.statistics.trend import Correlation, Kendall, Runs, mann_kendall, runs_test, spearman

NOTABLE = 0.02
"""A drift below this share of the mean over the whole run is said, but is no warning."""


@dataclass(frozen=True)
class Drift:
    """Change over the run, as shares of the mean (0.03: 3 % more at its end), and tests of there being none.

    `slope_per_trial` is the slope of ln(value) over the order, within conditions; `interval` and `p` belong to it.
    `kendall` is the seasonal Kendall test (conditions as seasons), `spearman` and `runs` look at all deviations.
    """

    change: float
    interval: Interval
    p: float
    slope_per_trial: float
    trials: int
    kendall: Kendall | Undefined
    spearman: Correlation | Undefined
    runs: Runs | Undefined


def over_run(found: Cells, confidence: float) -> Finding | None:
    """One finding; None where fewer than three trials repeat something.

    A drift is claimed where the rank test and the interval of the slope agree.
    """
    drift = measure(found, confidence)
    if isinstance(drift, Undefined):
        return None
    p = drift.kendall.p if isinstance(drift.kendall, Kendall) else drift.p
    drifts = p < 1 - confidence and not drift.interval.low <= 0 <= drift.interval.high
    return Finding(
        study=found.study,
        question="stability",
        response=found.response,
        title=f"{wording.name(found.response)}: drift over the run",
        statement=_statement(drift, p, drifts, 1 - confidence),
        statistics={**plain(drift), "drifts": drifts},
        caveats=_caveats(found, drifts),
        severity="warning" if drifts and abs(drift.change) >= NOTABLE else "info",
    )


def measure(found: Cells, confidence: float) -> Drift | Undefined:
    """Least squares over order with a level of its own for each condition (analysis of covariance), and rank tests."""
    cells = [cell for cell in found.cells if cell.values.size > 1]
    if not cells or min(cell.values.min() for cell in cells) <= 0:
        return Undefined("no positive values were repeated")
    y = np.concatenate([_centred(np.log(cell.values)) for cell in cells])
    x = np.concatenate([_centred(cell.order.astype(np.float64)) for cell in cells])
    order = np.concatenate([cell.order for cell in cells]).astype(np.float64)
    df, sxx = y.size - len(cells) - 1, float(np.sum(x**2))
    if df < 1 or sxx == 0:
        return Undefined("too few repetitions")
    slope = float(np.sum(x * y)) / sxx
    error = float(np.sqrt(np.sum((y - slope * x) ** 2) / df / sxx))
    half = float(stats.t.ppf((1 + confidence) / 2, df)) * error
    span = float(np.ptp(order))
    p = float(2 * stats.t.sf(abs(slope) / error, df)) if error > 0 else float(slope == 0)
    in_order = np.argsort(order, kind="stable")
    return Drift(
        change=float(np.expm1(slope * span)),
        interval=Interval(
            float(np.expm1(span * (slope - half))), float(np.expm1(span * (slope + half))), confidence, "t"
        ),
        p=p,
        slope_per_trial=slope,
        trials=int(y.size),
        kendall=mann_kendall([cell.values[np.argsort(cell.order, kind="stable")] for cell in cells]),
        spearman=spearman(order, y),
        runs=runs_test(y[in_order]),
    )


def _centred(values: Floats) -> Floats:
    shifted = values - values[0]
    return np.asarray(shifted - shifted.mean())


def _statement(drift: Drift, p: float, drifts: bool, risk: float) -> str:
    low, high = (wording.points(end, sign=True) for end in (drift.interval.low, drift.interval.high))
    within = f"({wording.level(drift.interval.confidence)} interval {low} to {high} %)"
    size = f"{wording.points(drift.change, sign=True)} % {within}"
    if drifts:
        way = (
            f"{'rises' if drift.change > 0 else 'falls'} over the run by {wording.points(abs(drift.change))} % {within}"
        )
        return f"It {way} from the first trial to the last ({wording.p(p)}, seasonal Kendall test)."
    if p < risk:
        told = f"The rank test sees a drift ({wording.p(p)}), but its size cannot be told from none"
        return f"{told}: {size} from the first trial to the last."
    return f"No drift over the run can be seen ({wording.p(p)}); the trend from first to last trial is {size}."


def size_text(seen: Finding) -> str:
    """A claimed drift without its test: `rises by 40 % (95 % interval +18 to +66 %)`."""
    change, bounds = float(seen.statistics["change"]), seen.statistics["interval"]
    low, high = (wording.points(float(bounds[end]), sign=True) for end in ("low", "high"))
    way = "rises" if change > 0 else "falls"
    return (
        f"{way} by {wording.points(abs(change))} % ({wording.level(bounds['confidence'])} interval {low} to {high} %)"
    )


def _caveats(found: Cells, drifts: bool) -> list[str]:
    if drifts:
        return ["Conditions ran in shuffled blocks, so a drift hits all of them alike; it widens every interval."]
    if max(cell.values.size for cell in found.cells) < 5:
        return ["With so few repetitions only a strong drift would be seen."]
    return []
