"""Is it stable? Variation between repetitions, log samples, drift over the run, and steady state of each response.

The repetition is the unit. The analysis of variance over log samples is naive, and given because it is what is usually
done, with what it is worth corrected; the same between conditions is in `factor_effects.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.measurements.log_samples import Samples, rounds, samples
from ioassay.stats import distributions
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.linear_models import (
    BLOCK,
    Corrected,
    Dependence,
    Effect,
    OneWay,
    corrected,
    dependence,
    factorial,
    one_way,
)
from ioassay.stats.result import Floats, Interval, Undefined
from ioassay.stats.sample import Kendall, Moments, SteadyState, mann_kendall, moments, steady_state
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

UNSTABLE_CV = 0.05
"""Above this coefficient of variation a condition counts as unstable: a difference of 5 % is what people act upon."""
LONG_ENOUGH = 50
"""Samples a run from which on its own mean, which is taken out, hides little of the dependence."""
PASS, TRIAL = "pass", "trial"
RANKABLE = 5
"""Passes from which even a perfect trend has a rank test below 5 %."""
NOTABLE = 0.02
"""A drift below this share of the mean over the whole run is reported, but is no warning."""
ENOUGH = 0.9
"""Share of the trials that must end in steady state: single ones miss the criterion by noise."""


@dataclass(frozen=True)
class Stability:
    """The answers for one response; None for what does not apply."""

    cells: Cells
    variation: Variation | None
    drift: Drift | None
    steadiness: Steadiness | None
    samples: LogSampleComparison | None


@memoized
def analyse(records: Dataset, study: Study) -> list[Stability]:
    confidence, answers = study.analysis.confidence, []
    for response in records.responses(study):
        found = cells(records, study, response)
        if found.cells:
            logged = samples(records, study, response)
            varied, compared = variation(found, confidence), log_sample_comparison(found, logged, confidence)
            answers.append(Stability(found, varied, drift(found, confidence), steadiness(found, logged), compared))
    return [one for one in answers if one.variation or one.drift or one.steadiness or one.samples]


# Variation between repetitions


@dataclass(frozen=True)
class Variation:
    """The repeated conditions of one response. `blocks` compares whole passes over the conditions."""

    conditions: tuple[tuple[Cell, Moments], ...]
    blocks: Effect | Undefined
    confidence: float

    @property
    def cvs(self) -> list[float]:
        """The conditions' coefficients of variation, 0 where there is none."""
        return [moments.cv or 0.0 for _, moments in self.conditions]

    @property
    def unstable(self) -> dict[str, float]:
        """Label -> coefficient of variation, of the conditions that vary by more than UNSTABLE_CV."""
        known = zip(self.conditions, self.cvs, strict=True)
        return {cell.label: cv for (cell, _), cv in known if cv > UNSTABLE_CV}

    @property
    def worst(self) -> Cell:
        return self.conditions[int(np.argmax(self.cvs))][0]


def variation(found: Cells, confidence: float) -> Variation | None:
    """Coefficient of variation of each condition and the block effect; None where nothing was repeated."""
    if not (described := [(cell, moments(cell.measured)) for cell in found.cells if cell.measured.size > 1]):
        return None
    everything = np.concatenate([cell.measured for cell in found.cells])
    blocks: Effect | Undefined = Undefined("values at or below 0 have no logarithm")
    if everything.min() > 0:
        labels = [cell.label for cell in found.cells for _ in cell.measured]
        passes = [int(number) for cell in found.cells for number in cell.repetition]
        done = factorial(np.log(everything), {"condition": labels}, block=passes, interactions=False)
        alone = Undefined("each condition ran in passes of its own")
        blocks = done if isinstance(done, Undefined) else done.effect(BLOCK) or alone
    return Variation(tuple(described), blocks, confidence)


# Log samples


@dataclass(frozen=True)
class Among:
    """One condition: do its repetitions differ? `naive` as usually done, `corrected` for the samples' dependence."""

    cell: Cell
    naive: OneWay
    dependence: Dependence | Undefined
    corrected: Corrected | Undefined


@dataclass(frozen=True)
class LogSampleComparison:
    """The repetitions of every condition that has logs of two or more."""

    conditions: tuple[Among, ...]
    confidence: float

    @property
    def naive_different(self) -> int:
        """Conditions whose repetitions seem to differ sample by sample."""
        return sum(among.naive.p < 1 - self.confidence for among in self.conditions)

    @property
    def corrected_different(self) -> int:
        """Conditions whose repetitions differ with the samples' dependence corrected."""
        tested = [one.corrected.p for one in self.conditions if isinstance(one.corrected, Corrected)]
        return sum(p < 1 - self.confidence for p in tested)

    @property
    def shortest(self) -> int:
        return min(among.naive.df_within // (among.naive.df_between + 1) + 1 for among in self.conditions)


def log_sample_comparison(found: Cells, logged: Mapping[str, Samples], confidence: float) -> LogSampleComparison | None:
    """All conditions; None where no condition has logs of two repetitions."""
    judged = []
    for cell in found.cells:
        runs = [logged[trial].value for trial in cell.trials if trial in logged]
        naive, dependent = one_way(runs), dependence(runs)
        if isinstance(naive, OneWay):
            fixed = dependent if isinstance(dependent, Undefined) else corrected(naive, dependent)
            judged.append(Among(cell, naive, dependent, fixed))
    return LogSampleComparison(tuple(judged), confidence) if judged else None


# Drift over the run


class DriftOutcome(StrEnum):
    """What the interval of the change and the rank test show."""

    NO_DRIFT = "no drift"
    """The change over the whole run is certainly within the margin."""
    UNDECIDED = "undecided"
    DRIFT = "drift"


@dataclass(frozen=True)
class Drift:
    """Change over the run, as shares of the mean (0.03: 3 % more at its end), and tests of there being none.

    `interval` and `p` are those of the slope of ln(value) over the order, within conditions.
    `unit`: what was counted, PASS or TRIAL (no passes: one condition, or conditions that did not take turns).
    `kendall`: the Mann-Kendall test of the passes' means, else the seasonal one with conditions as seasons.

    A drift is claimed where the rank test and the interval of the slope agree; of three or four passes the rank test
    can say nothing, and the interval decides. That there is none is claimed only where the interval is within MARGIN.
    """

    change: float
    interval: Interval
    p: float
    unit: str
    units: int
    trials: int
    kendall: Kendall | Undefined

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
    def outcome(self) -> DriftOutcome:
        """A drift, certainly none that matters, or neither."""
        if self.deciding_p < 1 - self.interval.confidence:
            return DriftOutcome.DRIFT
        within = 1 + self.interval.low >= 1 / (1 + MARGIN) and self.interval.high <= MARGIN
        return DriftOutcome.NO_DRIFT if within else DriftOutcome.UNDECIDED

    @property
    def notable(self) -> bool:
        return self.outcome == DriftOutcome.DRIFT and abs(self.change) >= NOTABLE


def drift(found: Cells, confidence: float) -> Drift | None:
    """Least squares over order with a level of its own for each condition (analysis of covariance), and rank tests.

    Where the run has passes, over their mean deviations: the trials of one share whatever happened to the machine
    meanwhile, and the classic analysis of covariance would count each. Deviations from the mean of the own condition
    say nothing about conditions, so that a drift cannot contradict what is said of these. None where values are not
    above 0, or fewer than three trials repeat something.
    """
    own = [cell for cell in found.cells if cell.measured.size > 1]
    if not own or min(cell.measured.min() for cell in own) <= 0:
        return None
    y = np.concatenate([_centred(np.log(cell.measured)) for cell in own])
    x = np.concatenate([_centred(cell.order.astype(np.float64)) for cell in own])
    order = np.concatenate([cell.order for cell in own]).astype(np.float64)
    trials, df = y.size, y.size - len(own) - 1
    ranked = [cell.measured[np.argsort(cell.order, kind="stable")] for cell in own]
    if (passes := _passes(own, y, order)) is not None:
        x, y = passes
        df, ranked = y.size - 2, [y]
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
        unit=TRIAL if passes is None else PASS,
        units=int(y.size),
        trials=trials,
        kendall=mann_kendall(ranked),
    )


def _passes(own: Sequence[Cell], deviations: Floats, order: Floats) -> tuple[Floats, Floats] | None:
    """Order and deviation of each pass, about their means; None where fewer than three passes follow each other."""
    if len(own) < 2:
        return None
    numbers = np.concatenate([cell.repetition for cell in own])
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


# Steady state


@dataclass(frozen=True)
class WithinTrial:
    """One trial judged over equal spans of its time. `since_s`: start of its steady part, None if there is none."""

    state: SteadyState
    since_s: float | None
    round_s: float


@dataclass(frozen=True)
class Judged:
    """One condition: over its repetitions, and each of its logged trials (trial id -> result)."""

    cell: Cell
    repetitions: SteadyState | Undefined
    trials: Mapping[str, WithinTrial]


@dataclass(frozen=True)
class Steadiness:
    """All conditions of one response. `by_repetition`: label -> state, of those with repetitions enough."""

    conditions: tuple[Judged, ...]
    by_repetition: Mapping[str, SteadyState]
    within: tuple[WithinTrial, ...]

    @property
    def unsteady(self) -> list[str]:
        return [label for label, state in self.by_repetition.items() if not state.attained]

    @property
    def trials_attained(self) -> int:
        return sum(trial.state.attained for trial in self.within)

    @property
    def attained(self) -> bool:
        """True unless a condition, or more than a few trials, did not attain steady state."""
        return not self.unsteady and self.trials_attained >= ENOUGH * len(self.within)


def steadiness(found: Cells, logged: Mapping[str, Samples]) -> Steadiness | None:
    """SNIA's criterion over repetitions as rounds, and within each logged trial.

    None where there are neither five repetitions nor logs.
    """
    judged, states, within = [], dict[str, SteadyState](), list[WithinTrial]()
    for cell in found.cells:
        trials = {trial: one for trial in cell.trials if trial in logged and (one := within_trial(logged[trial]))}
        state = steady_state(cell.measured[np.argsort(cell.order, kind="stable")])
        judged.append(Judged(cell, state, trials))
        states |= {cell.label: state} if isinstance(state, SteadyState) else {}
        within += trials.values()
    return Steadiness(tuple(judged), states, tuple(within)) if states or within else None


def within_trial(found: Samples) -> WithinTrial | None:
    """Judge one trial by its log samples; None of fewer than five rounds."""
    cut = rounds(found)
    state = steady_state(cut.values)
    if isinstance(state, Undefined):
        return None
    return WithinTrial(state, None if state.since is None else cut.start_s + state.since * cut.round_s, cut.round_s)
