"""Which level of a factor is best, how sure is that, where does the gain end, and does it scale by a law?

Each factor alone, where all others are fixed. Numbers with an order get a plateau and a knee; counts of workers also
scaling efficiency, Amdahl's law and the universal scalability law. Words get the best and those that may be as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ioassay import metrics
from ioassay.analysis import one_factor
from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import Cells, MissingConditions, cells, interval, missing
from ioassay.analysis.one_factor import LevelFamily
from ioassay.analysis.peak_cause import Cause, Explanation, explain
from ioassay.factors import CASE, changes_operation, counts_concurrency, level_phrase, loads_machine, takes_processors
from ioassay.stats.contrasts import (
    BestLevel,
    Contrasts,
    Plateau,
    bend_p,
    best,
    best_level,
    levels_off,
    plateau,
    repetitions_needed,
    second_peaks,
)
from ioassay.stats.result import Interval, Undefined, as_floats, mean_of, plain
from ioassay.stats.scalability import AMDAHL, FEWEST_LEVELS, USL, Knee, Law, knee, preferred, scaling_law
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

SEPARATE_SLICES = 4
"""Up to so many combinations of the other factors get a finding each; more share one."""
LITTLE = 0.2
"""A response that certainly grows by less than this share does not follow a load that doubles."""
LARGEST_MISS = 0.1
"""A law that a level's mean leaves by more than this share is not what the curve follows."""


class Outcome(StrEnum):
    """What the levels of a factor show. Every sentence about one peak follows it."""

    EQUAL = "equal"
    """Every repetition gave the same number."""
    EQUIVALENT = "equivalent"
    """All levels are certainly within the margin of each other."""
    UNDECIDED = "undecided"
    """No level is certainly worse than another, nor are all as good."""
    UNREPEATED = "unrepeated"
    CATEGORIES = "categories"
    """The levels are words: a best one, those that are worse, as good, or either."""
    NARROWED = "narrowed"
    """Some levels are certainly worse; where among the others the gain ends is undecided."""
    SATURATES = "saturates"
    """The plateau reaches the last level."""
    DECLINES = "declines"
    """The plateau begins at the first level."""
    INNER_PLATEAU = "inner plateau"
    STILL_IMPROVES = "still improves"
    """The last levels are as good as the best, but the curve has not left the line of its rise."""
    BEST_AT_FIRST = "best at first"
    """The range could go on below the first level, which is best."""
    BEST_AT_LAST = "best at last"
    ISOLATED = "isolated"
    """The best level is better than all others, and the range could not go on beyond it."""


_WITHOUT_END = (Outcome.EQUAL, Outcome.UNREPEATED, Outcome.UNDECIDED, Outcome.STILL_IMPROVES, Outcome.BEST_AT_LAST)
"""Outcomes that show no end of the gain."""


class NoPlateau(StrEnum):
    """Why a factor has no plateau."""

    ALONE = "every other level is worse"
    IMPROVES = "the last level still improves"
    UNDECIDED = "its levels are undecided"
    SINGLE = "one repetition per level"
    WORDS = "the levels have no order"


@dataclass(frozen=True)
class Scaling:
    """Throughput over that of the first level (`speedup`), and that over the ratio of the levels (`efficiency`)."""

    speedup: float
    efficiency: float
    interval: Interval | None
    """Of the efficiency."""


@dataclass(frozen=True, kw_only=True)
class Peak(LevelFamily):
    """A family of levels and its best; indices count `cells`.

    `levels` says which level is best, may be, is as good. `plateau` are the levels around the best that are as good;
    else `no_plateau` is the reason. `second` are peaks apart from the best. `needed`: repetitions that would show a
    difference of the margin, None of exact results. `growth` is a law that levels up to the plateau's first follow,
    where all of them follow none. `processors`: the machine's hardware threads where the factor counts what takes one.
    `explanation`: what was used up where the gain ends, of rates over a concurrency or a load.
    """

    exact: bool
    best: int
    mean: float
    interval: Interval | Undefined
    levels: BestLevel | Undefined
    needed: int | Undefined | None
    plateau: Plateau | None = None
    no_plateau: NoPlateau | None = NoPlateau.WORDS
    second: tuple[int, ...] = ()
    knee: Knee | Undefined | None = None
    scaling: tuple[Scaling, ...] | None = None
    usl: Law | Undefined | None = None
    amdahl: Law | Undefined | None = None
    growth: Law | None = None
    processors: int | None = None
    explanation: Explanation | None = None

    @property
    def law(self) -> Law | None:
        """None where its peak is at levels that are certainly worse than the best: it would contradict them."""
        found, numbers = preferred(self.usl, self.amdahl), self.numbers
        if found is None or _missed(found):
            return None
        if found.peak_interval is None or numbers is None:
            return found
        low, high = max(self.candidates[0] - 1, 0), min(self.candidates[-1] + 1, len(numbers) - 1)
        after = high < len(numbers) - 1 or high not in self.candidates
        beyond = found.peak_interval.high < numbers[low] or (after and found.peak_interval.low > numbers[high])
        return None if beyond else found

    @property
    def fewest(self) -> int:
        return min(cell.values.size for cell in self.cells)

    @property
    def positive(self) -> bool:
        return all(float(cell.values.min()) > 0 for cell in self.cells)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Levels that may be best; all where nothing is known."""
        return tuple(range(len(self.cells))) if isinstance(self.levels, Undefined) else self.levels.candidates

    @property
    def indistinct(self) -> bool:
        """True if the data do not identify a best level: none is worse, or all are as good."""
        if isinstance(self.levels, Undefined):
            return False
        return len(self.candidates) == len(self.cells) or len(self.levels.as_good) == len(self.cells)

    @property
    def outcome(self) -> Outcome:
        if len({float(value) for cell in self.cells for value in cell.values}) == 1:
            return Outcome.EQUAL
        if isinstance(self.levels, Undefined):
            return Outcome.UNREPEATED
        if len(self.levels.as_good) == len(self.cells):
            return Outcome.EQUIVALENT
        if self.plateau is not None:
            ends = (self.plateau.first == 0, self.plateau.last == len(self.cells) - 1)
            known = {(False, True): Outcome.SATURATES, (True, False): Outcome.DECLINES}
            return known.get(ends, Outcome.INNER_PLATEAU)
        if self.indistinct:
            return Outcome.UNDECIDED
        if self.numbers is None:
            return Outcome.CATEGORIES
        if self.no_plateau != NoPlateau.ALONE:
            return Outcome.STILL_IMPROVES if self.no_plateau == NoPlateau.IMPROVES else Outcome.NARROWED
        number, within = self.numbers[self.best], self.best not in (0, len(self.cells) - 1)
        if within or (number == 100 and "%" in level_phrase(self.factor, self.level(self.best))):
            return Outcome.ISOLATED  # there is nothing above all
        if self.best > 0:
            return Outcome.BEST_AT_LAST
        return Outcome.BEST_AT_FIRST if number > 1 else Outcome.ISOLATED  # nor below one worker

    @property
    def most_growth(self) -> float | None:
        """Where no best level is identified, the share by which the response grows at most over the levels.

        None where it may grow by more than LITTLE, or where the load does not even double.
        """
        numbers, contrasts = self.numbers or (), self.contrasts
        if self.outcome != Outcome.UNDECIDED or not numbers or isinstance(contrasts, Undefined):
            return None
        if self.lower or not self.positive or numbers[-1] < 2 * numbers[0]:
            return None
        most = max(contrasts.pair(index, 0).interval.high for index in range(1, len(numbers))) - 1
        return most if most < LITTLE else None

    @property
    def end_of_gain(self) -> int | None:
        """The first level beyond which there is no certain gain; None where there may be one beyond the last."""
        if self.numbers is None or self.outcome in _WITHOUT_END:
            return None if self.most_growth is None else 0
        end = 0 if self.outcome == Outcome.EQUIVALENT else self.candidates[0]
        first = self.plateau.first if self.plateau and self.outcome != Outcome.EQUIVALENT else end
        return first if first < len(self.cells) - 1 else None

    def at_processors(self, index: int) -> bool:
        return self.numbers is not None and self.processors is not None and self.numbers[index] == self.processors

    def level(self, index: int) -> object:
        return self.cells[index].point[self.factor]

    def statistics(self) -> dict[str, Any]:
        found = self.levels if isinstance(self.levels, BestLevel) else None
        levels, flat = [self.level(index) for index in range(len(self.cells))], self.plateau
        confidence = self.contrasts.confidence if isinstance(self.contrasts, Contrasts) and not self.exact else None
        bounds = found and {"low": levels[found.candidates[0]], "high": levels[found.candidates[-1]]}
        own = ("factor", "outcome", "mean", "interval", "processors", "knee", "scaling", "usl", "amdahl", "growth")
        return {
            **{name: plain(getattr(self, name)) for name in own},
            "best": self.level(self.best),
            "best_can_be_told": found is not None and not self.indistinct,
            "confidence": found and found.probability[self.best],
            "levels": levels,
            "means": [cell.mean for cell in self.cells],
            "repetitions": [int(cell.values.size) for cell in self.cells],
            "probability_of_being_best": found and list(found.probability),
            "best_interval": {**bounds, "confidence": confidence} if bounds and self.numbers else None,
            "not_worse": found and [levels[index] for index in found.candidates],
            "as_good": found and [levels[index] for index in found.as_good],
            "plateau": flat and [levels[flat.first], levels[flat.last]],
            "plateau_earliest": flat and levels[flat.earliest],
            "plateau_reason": self.no_plateau or "",
            "plateau_at_processors": flat and self.at_processors(flat.first),
            "second_peaks": [levels[index] for index in self.second],
            "repetitions_needed": plain(self.needed),
            "law": self.law and self.law.kind,
            "cause": self.explanation and self.explanation.statistics(levels),
        }


@dataclass(frozen=True)
class Optimum:
    """One response over one factor: a peak in each place where the factor varies. `missing`: what the study lacks."""

    cells: Cells
    peaks: Sequence[Peak]
    missing: Sequence[MissingConditions]


def analyse(records: Dataset, study: Study) -> list[Optimum]:
    """An answer for each response and each factor with two levels or more."""
    absent = missing(records, study)
    return [
        Optimum(cells(records, study, response), peaks, absent)
        for response in judged(records, study)
        for peaks in measured(records, study, response).values()
    ]


def judged(records: Dataset, study: Study) -> list[str]:
    """The responses that have a best, in the study's order: of context switches neither many nor few are.

    A name that nobody registered is a measure of good.
    """
    return [
        name for name in records.responses(study) if not metrics.known(name) or metrics.metric(name).better != "none"
    ]


@memoized
def measured(records: Dataset, study: Study, response: str) -> dict[str, list[Peak]]:
    """Factor -> its peak in each place where it varies; factors that vary nowhere are left out.

    So are those over which a number of operations has no best, since an operation is other work at each level.
    """
    metric, peaks = metrics.metric(response), dict[str, list[Peak]]()
    for factor, group in one_factor.families(records, study, response).items():
        if metric.counts_operations and changes_operation(factor):
            continue
        for found in (measure(records, study, family) for family in group):
            end, explanation = found.end_of_gain, None
            # What was used up where the gain ends, of a rate of the whole load over what loads the machine.
            loads = counts_workers(found) or (loads_machine(factor) and metric.kind)
            if end is not None and loads and not found.exact:
                explanation = explain(records, study, found, end)
            if found.most_growth is not None and explanation and explanation.cause is Cause.NONE:
                explanation = None
            peaks.setdefault(factor, []).append(replace(found, explanation=explanation))
    return peaks


def swept(study: Study, peaks: Mapping[str, Sequence[Peak]]) -> list[str]:
    """The factors that a study is about: those with three numbers or more, else those of which it lists most.

    Cases, which differ in more than one thing, only where no factor has as many levels.
    """
    listed = {factor: len(study.levels.get(factor, ())) for factor in peaks}
    numeric = [factor for factor, found in peaks.items() if found[0].numbers and listed[factor] > 2]
    most = [factor for factor in listed if listed[factor] == max(listed.values())]
    return numeric or [factor for factor in most if factor != CASE] or most


def measure(records: Dataset, study: Study, family: LevelFamily, *, workers: bool = False) -> Peak:
    """The best of one factor's levels; with `workers` the factor counts workers, whatever its name is."""
    contrasts, lower, confidence = family.contrasts, family.lower, study.analysis.confidence
    groups = [cell.values for cell in family.cells]
    found = contrasts if isinstance(contrasts, Undefined) else best_level(contrasts, lower=lower, seed=study.seed)
    means = as_floats([mean_of(group) for group in groups])
    bounded = metrics.lower_bounds(cell.mean for cell in family.cells)
    top = best(means, lower=lower, bounded=bounded) if isinstance(found, Undefined) else found.index
    exact = family.part.exact and (isinstance(contrasts, Undefined) or contrasts.means.exact)
    peak = Peak(
        **vars(family),
        exact=exact,
        best=top,
        mean=family.cells[top].mean,
        interval=interval(family.part.response, family.cells[top], confidence),
        levels=found,
        needed=None if exact else contrasts if isinstance(contrasts, Undefined) else repetitions_needed(contrasts),
    )
    if not family.numbers:
        return peak
    x, y = np.repeat(np.array(family.numbers), [group.size for group in groups]), np.concatenate(groups)
    flat: Plateau | NoPlateau | None = NoPlateau.SINGLE
    if isinstance(contrasts, Contrasts):  # the levels around the best that are as good, or why there are none
        flat = plateau(contrasts, lower=lower)
        if flat is None or flat.first == flat.last:
            flat = NoPlateau.ALONE if len(peak.candidates) == 1 else NoPlateau.UNDECIDED
        elif flat.last == len(groups) - 1 and not levels_off(contrasts, family.numbers, flat):
            flat = NoPlateau.IMPROVES
    unclear = Undefined("the levels are not distinguishable") if peak.indistinct else None
    peak = replace(
        peak,
        plateau=flat if isinstance(flat, Plateau) else None,
        no_plateau=flat if isinstance(flat, NoPlateau) else None,
        second=() if isinstance(contrasts, Undefined) else second_peaks(contrasts, lower=lower),
        knee=unclear or _straight(peak) or knee(x, y, confidence, lower=lower),
    )
    if not counts_workers(peak, workers=workers):
        return peak
    scalings = []
    for index, number in enumerate(family.numbers):
        speedup, share = float(means[index] / means[0]), family.numbers[0] / number
        known = contrasts.pair(index, 0).interval if index and isinstance(contrasts, Contrasts) else None
        scalings.append(Scaling(speedup, speedup * share, known and known.scaled(share)))
    processors = records.machine(study).get("cpu", {}).get("cpus")
    peak = replace(
        peak,
        scaling=tuple(scalings),
        usl=unclear or scaling_law(x, y, confidence, USL),
        amdahl=unclear or scaling_law(x, y, confidence, AMDAHL),
        processors=processors if isinstance(processors, int) and takes_processors(family.factor) else None,
    )
    # Where all levels together follow no law, those up to where the plateau begins may.
    if peak.law is None and peak.plateau is not None and peak.plateau.first + 1 >= FEWEST_LEVELS:
        before = x <= family.numbers[peak.plateau.first]
        law = preferred(*(scaling_law(x[before], y[before], confidence, kind) for kind in (USL, AMDAHL)))
        peak = replace(peak, growth=None if law is None or _missed(law) else law)
    return peak


def counts_workers(found: Peak, *, workers: bool = False) -> bool:
    """Whether laws of scaling apply: a count of workers from 1 up, and a rate of what they do all together.

    What one worker does, shares and times follow none. A metric that nobody registered is taken at the user's word.
    """
    response = found.part.response
    named = workers or counts_concurrency(found.factor)
    rate = metrics.metric(response).kind == metrics.RATE or (workers and not metrics.known(response))
    return named and rate and found.numbers is not None and min(found.numbers) >= 1 and found.positive


def _missed(found: Law) -> bool:
    """Whether the law is not what happens: contention below 0, or level means away from it, and not by chance alone."""
    risk = 1 - found.alpha_interval.confidence
    if found.alpha_interval.high < 0:
        return True
    return found.worst > LARGEST_MISS and (found.lack_p is None or found.lack_p < risk)


def _straight(found: Peak) -> Undefined | None:
    """No knee is located unless the contrasts show that the response gains, and that it gains less later.

    The fit of two lines supposes equal scatter, and finds a knee where single levels scatter.
    """
    contrasts, numbers, lower = found.contrasts, found.numbers or (), found.lower
    if isinstance(contrasts, Undefined):
        return None
    better = contrasts.above.T if lower else contrasts.above
    if not np.tril(better, -1).any():
        return Undefined("no level is certainly better than one before it")
    scales = [numbers, *([tuple(np.log2(numbers))] if min(numbers) > 0 else [])]
    if min(bend_p(contrasts, scale, lower=lower) for scale in scales) * len(scales) >= contrasts.risk:
        return Undefined("the data do not show that the response gains less later")
    return None
