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
from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.effects.response_shape import MARGIN, Shape, ShapeKind, ascending
from ioassay.analysis.measurements.cells import Cell, Cells, cells
from ioassay.analysis.measurements.memo import memoized
from ioassay.analysis.measurements.missing_trials import MissingConditions, missing
from ioassay.analysis.optimum.plateau import NoPlateau, plateau
from ioassay.factors import CASE, counts_concurrency, level_axis_numbers, level_phrase, takes_processors
from ioassay.stats.best_level import BestLevel, NotWorse, best_index, bootstrap_best, exactly_best, not_worse
from ioassay.stats.power import repetitions_needed
from ioassay.stats.ratio_of_means import Ratio, ratio_of_means
from ioassay.stats.result import Floats, Interval, Undefined, mean_of, plain
from ioassay.stats.sample import t_interval
from ioassay.stats.saturation import Knee, knee
from ioassay.stats.scalability import FEWEST_LEVELS, Law, amdahl, preferred, usl
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

SEPARATE_SLICES = 4
"""Up to so many combinations of the other factors get a finding each; more share one."""
LARGEST_MISS = 0.1
"""A law that a level's mean leaves by more than this share is not what the curve follows."""


class Outcome(StrEnum):
    """What the levels of a factor show. Every sentence about one peak follows it."""

    EQUAL = "equal"
    """Every repetition gave the same number."""
    NO_DIFFERENCE = "no difference"
    """All levels are as good as the best within noise."""
    UNREPEATED = "unrepeated"
    CATEGORIES = "categories"
    """The levels are words: a best one, and those that may be as good."""
    FLAT = "flat"
    """The plateau holds all levels."""
    SATURATES = "saturates"
    """The plateau reaches the last level."""
    DECLINES = "declines"
    """The plateau begins at the first level."""
    INNER_PLATEAU = "inner plateau"
    STILL_IMPROVES = "still improves"
    BEST_AT_FIRST = "best at first"
    """The range could go on below the first level, which is best."""
    BEST_AT_LAST = "best at last"
    ISOLATED = "isolated"
    """The best level has no equal next to it."""


@dataclass(frozen=True)
class Ask:
    """How it is measured: `seed` of the bootstrap; `exact` where results have no chance in them (a simulation).

    `workers` says that the factor counts workers, whatever its name is; `processors`: the machine's hardware threads.
    """

    confidence: float
    seed: int = 1
    exact: bool = False
    workers: bool = False
    processors: int | None = None


@dataclass(frozen=True)
class Scaling:
    """Throughput over that of the first level (`speedup`), and that over the ratio of the levels (`efficiency`)."""

    speedup: float
    efficiency: float
    interval: Interval | None
    """Of the efficiency."""


@dataclass(frozen=True)
class Peak:
    """One factor where all others are fixed; indices count `cells`, which ascend where the levels are `numbers`.

    `plateau` are the first and last index of the levels around the best that are as good (`plateau.py`); else
    `no_plateau` is the reason. `needed`: repetitions that would show a difference of MARGIN, None of exact results.
    `nearly`: the first index from which on all levels up to the best are within MARGIN of it, None for words.
    `growth` is a law that levels up to the plateau's first follow, where all of them follow none. `processors`: the
    machine's hardware threads where the factor counts what takes one each.
    """

    factor: str
    part: Cells
    exact: bool
    cells: tuple[Cell, ...]
    numbers: tuple[float, ...] | None
    best: int
    mean: float
    interval: Interval | Undefined
    likely: BestLevel | Undefined
    near: NotWorse | Undefined
    plateau: tuple[int, int] | None
    no_plateau: NoPlateau | None
    needed: int | Undefined | None
    nearly: int | None
    knee: Knee | Undefined | None
    scaling: tuple[Scaling, ...] | None
    usl: Law | Undefined | None
    amdahl: Law | Undefined | None
    growth: Law | None = None
    processors: int | None = None

    @property
    def law(self) -> Law | None:
        """The law to show: one that the level means follow."""
        found = preferred(self.usl, self.amdahl)
        return None if found is None or _missed(found) else found

    @property
    def fewest(self) -> int:
        """The repetitions of the level that has the fewest."""
        return min(cell.values.size for cell in self.cells)

    @property
    def indistinct(self) -> bool:
        """True if no two levels are distinguishable."""
        return isinstance(self.near, NotWorse) and len(self.near.members) == len(self.cells)

    @property
    def outcome(self) -> Outcome:
        """What the levels show."""
        if len({float(value) for cell in self.cells for value in cell.values}) == 1:
            return Outcome.EQUAL
        if self.indistinct:
            return Outcome.NO_DIFFERENCE
        if isinstance(self.near, Undefined):
            return Outcome.UNREPEATED
        if self.numbers is None:
            return Outcome.CATEGORIES
        if self.plateau is None:
            return Outcome.STILL_IMPROVES if self.no_plateau == NoPlateau.IMPROVES else self._single()
        ends = (self.plateau[0] == 0, self.plateau[1] == len(self.cells) - 1)
        return {
            (True, True): Outcome.FLAT,
            (False, True): Outcome.SATURATES,
            (True, False): Outcome.DECLINES,
        }.get(ends, Outcome.INNER_PLATEAU)

    def _single(self) -> Outcome:
        """Of one best level whether it is at an end of a range that could go on."""
        number, last = (self.numbers or ())[self.best], len(self.cells) - 1
        share = "%" in level_phrase(self.factor, self.level(self.best))
        if self.no_plateau != NoPlateau.ALONE or self.best not in (0, last) or (number == 100 and share):
            return Outcome.ISOLATED  # there is nothing above all
        if self.best == 0:
            return Outcome.BEST_AT_FIRST if number > 1 else Outcome.ISOLATED  # nor below one worker
        return Outcome.BEST_AT_LAST

    def at_processors(self, index: int) -> bool:
        """True if a level is the number of the machine's processors."""
        return self.numbers is not None and self.processors is not None and self.numbers[index] == self.processors

    def level(self, index: int) -> object:
        """A level as the study wrote it."""
        return self.cells[index].point[self.factor]

    def statistics(self) -> dict[str, Any]:
        """The numbers under stable names."""
        near = self.near.members if isinstance(self.near, NotWorse) else None
        likely = self.likely if isinstance(self.likely, BestLevel) else None
        levels = [self.level(index) for index in range(len(self.cells))]
        bounds = likely and {
            "low": self.level(likely.low),
            "high": self.level(likely.high),
            "confidence": likely.confidence,
        }
        return {
            "factor": self.factor,
            "best": self.level(self.best),
            "best_can_be_told": near is not None and not self.indistinct,
            "confidence": likely.probability[self.best] if likely else None,
            "mean": self.mean,
            "interval": plain(self.interval),
            "levels": levels,
            "means": [mean_of(cell.values) for cell in self.cells],
            "repetitions": [int(cell.values.size) for cell in self.cells],
            "probability_of_being_best": list(likely.probability) if likely else None,
            "best_interval": bounds if self.numbers else None,
            "not_worse": None if near is None else [levels[index] for index in near],
            "not_worse_p": list(self.near.p) if isinstance(self.near, NotWorse) else None,
            "plateau": None if self.plateau is None else [levels[end] for end in self.plateau],
            "plateau_reason": self.no_plateau or "",
            "plateau_at_processors": None if self.plateau is None else self.at_processors(self.plateau[0]),
            "processors": self.processors,
            "repetitions_needed": plain(self.needed),
            "nearly_best_from": None if self.nearly is None else levels[self.nearly],
            "knee": plain(self.knee),
            "scaling": plain(self.scaling),
            "usl": plain(self.usl),
            "amdahl": plain(self.amdahl),
            "law": self.law.kind if self.law else None,
            "growth": plain(self.growth),
        }


@dataclass(frozen=True)
class Optimum:
    """One response over one factor: a peak in each place where the factor varies. `missing`: what the study lacks."""

    cells: Cells
    peaks: Sequence[Peak]
    missing: Sequence[MissingConditions]
    ask: Ask

    @property
    def separate(self) -> bool:
        """True if the places are few enough for a finding each."""
        return len(self.peaks) <= SEPARATE_SLICES


def analyse(records: Dataset, study: Study) -> list[Optimum]:
    """An answer for each response and each factor with two levels or more."""
    ask, absent = ask_of(records, study), missing(records, study)
    return [
        Optimum(cells(records, study, response), peaks, absent, ask)
        for response in judged(records, study)
        for peaks in measured(records, study, response).values()
    ]


def judged(records: Dataset, study: Study) -> list[str]:
    """The responses that have a best, in the study's order."""
    return list(filter(_has_better, records.responses(study)))


@memoized
def measured(records: Dataset, study: Study, response: str) -> dict[str, list[Peak]]:
    """Factor -> its peak in each place where it varies; factors that vary nowhere are left out."""
    how, found = ask_of(records, study), cells(records, study, response)
    peaks = {
        factor: [measure(part, factor, how) for part in found.slices(factor) if len(part.cells) > 1]
        for factor in found.varying()
    }
    return {factor: found for factor, found in peaks.items() if found}


def saturation(records: Dataset, study: Study, part: Cells, curve: Shape) -> Cell | None:
    """The level at which a rising or falling response levels off, decided once for all that a study says.

    Where the study asks for peaks and the response improves along the curve, it is that of the peak; else the shape's.
    """
    if curve.kind not in (ShapeKind.UP, ShapeKind.DOWN) or curve.tendency is not None:
        return None
    asked = not study.analysis.questions or "peak" in study.analysis.questions
    improves = _has_better(part.response) and (curve.kind == ShapeKind.DOWN) == lower_is_better(part.response)
    if asked and improves:
        for peak in measured(records, study, part.response).get(curve.factor, ()):
            if peak.part.where() == part.where():
                return peak.cells[peak.plateau[0]] if peak.plateau and peak.outcome == Outcome.SATURATES else None
    return curve.plateau


def swept(study: Study, peaks: Mapping[str, Sequence[Peak]]) -> list[str]:
    """The factors that a study is about: those with three numbers or more, else those of which it lists most.

    Cases, which differ in more than one thing, only where no factor has as many levels.
    """
    listed = {factor: len(study.levels.get(factor, ())) for factor in peaks}
    numeric = [factor for factor, found in peaks.items() if found[0].numbers and listed[factor] > 2]
    most = [factor for factor in listed if listed[factor] == max(listed.values())]
    return numeric or [factor for factor in most if factor != CASE] or most


def _has_better(response: str) -> bool:
    """Of context switches neither many nor few are best; a name that nobody registered is a measure of good."""
    return not metrics.known(response) or metrics.metric(response).better != "none"


def ask_of(records: Dataset, study: Study) -> Ask:
    """What the study itself says: its confidence, its seed, whether it measures; and the machine of the records."""
    processors = records.host.get("cpu", {}).get("cpus")
    return Ask(
        confidence=study.analysis.confidence,
        seed=study.seed,
        exact=not records.is_measured(study),
        processors=processors if isinstance(processors, int) else None,
    )


def measure(part: Cells, factor: str, how: Ask) -> Peak:
    """One factor; `part` varies in nothing else and has two levels or more."""
    ordered = ascending(part.cells, factor)
    numbers = level_axis_numbers(factor, [cell.point[factor] for cell in ordered])
    lower = lower_is_better(part.response)
    groups = [cell.values for cell in ordered]
    best = best_index(groups, lower)
    near = exactly_best(groups, lower=lower) if how.exact else not_worse(groups, how.confidence, lower=lower)
    found = Peak(
        factor=factor,
        part=part,
        exact=how.exact,
        cells=ordered,
        numbers=tuple(numbers) if numbers else None,
        best=best,
        mean=mean_of(groups[best]),
        interval=t_interval(groups[best], how.confidence),
        likely=bootstrap_best(groups, how.confidence, how.seed, lower=lower),
        near=near,
        plateau=None,
        no_plateau=NoPlateau.WORDS,
        needed=None if how.exact else _needed(groups, best, how.confidence),
        nearly=None,
        knee=None,
        scaling=None,
        usl=None,
        amdahl=None,
    )
    return _over_numbers(found, groups, how) if numbers else found


def _over_numbers(found: Peak, groups: Sequence[Floats], how: Ask) -> Peak:
    lower = lower_is_better(found.part.response)
    x = np.repeat(np.array(found.numbers), [group.size for group in groups])
    y = np.concatenate(groups)
    flat = plateau(groups, found.numbers or (), found.best, found.near, exact=how.exact, lower=lower)
    found = replace(
        found,
        plateau=None if isinstance(flat, Undefined) else flat,
        no_plateau=NoPlateau(flat.reason) if isinstance(flat, Undefined) else None,
        nearly=_nearly(groups, found.best, lower),
        knee=_indistinct(found) or knee(x, y, how.confidence, lower=lower),
    )
    if not counts_workers(found, how):
        return found
    found = replace(
        found,
        scaling=_scaling(found, groups, how),
        usl=_indistinct(found) or usl(x, y, how.confidence),
        amdahl=_indistinct(found) or amdahl(x, y, how.confidence),
        processors=how.processors if takes_processors(found.factor) else None,
    )
    return replace(found, growth=_growth(found, x, y, how.confidence))


def _growth(found: Peak, x: Floats, y: Floats, confidence: float) -> Law | None:
    """A law for the levels up to where the plateau begins, where all together follow none."""
    if found.law is not None or found.plateau is None or found.numbers is None or found.plateau[0] + 1 < FEWEST_LEVELS:
        return None
    before = x <= found.numbers[found.plateau[0]]
    law = preferred(usl(x[before], y[before], confidence), amdahl(x[before], y[before], confidence))
    return None if law is None or _missed(law) else law


def _needed(groups: Sequence[Floats], best: int, confidence: float) -> int | Undefined:
    pairs = len(groups) * (len(groups) - 1) // 2
    return repetitions_needed(groups, MARGIN * abs(mean_of(groups[best])), confidence, pairs)


def counts_workers(found: Peak, how: Ask) -> bool:
    """Whether laws of scaling apply: a count of workers from 1 up, and a rate of what they do all together.

    What one worker does, shares and times follow none. A metric that nobody registered is taken at the user's word.
    """
    response = found.part.response
    named = how.workers or counts_concurrency(found.factor)
    rate = metrics.metric(response).kind == metrics.RATE or (how.workers and not metrics.known(response))
    return named and rate and found.numbers is not None and min(found.numbers) >= 1 and positive(found)


def positive(found: Peak) -> bool:
    """Whether every repetition is above 0."""
    return all(float(cell.values.min()) > 0 for cell in found.cells)


def _missed(found: Law) -> bool:
    """Whether the law is not what happens: contention below 0, or level means away from it, and not by chance alone."""
    risk = 1 - found.alpha_interval.confidence
    if found.alpha_interval.high < 0:
        return True
    return found.worst > LARGEST_MISS and (found.lack_p is None or found.lack_p < risk)


def _indistinct(found: Peak) -> Undefined | None:
    """No curve is fitted to levels that are not distinguishable: it would follow chance."""
    return Undefined(NoPlateau.INDISTINCT) if found.indistinct else None


def _nearly(groups: Sequence[Floats], best: int, lower: bool) -> int | None:
    """The first of the levels before the best that already gives it to within MARGIN, with all between."""
    means = [mean_of(group) for group in groups]
    if min(means) <= 0:
        return None
    first = best
    while first and (means[first - 1] / means[best] if lower else means[best] / means[first - 1]) <= 1 + MARGIN:
        first -= 1
    return first


def _scaling(found: Peak, groups: Sequence[Floats], how: Ask) -> tuple[Scaling, ...]:
    numbers = found.numbers or ()
    told = []
    for number, group in zip(numbers, groups, strict=True):
        speedup, share = mean_of(group) / mean_of(groups[0]), numbers[0] / number
        ratio = ratio_of_means(group, groups[0], how.confidence) if group is not groups[0] else None
        bounds = ratio.interval.scaled(share) if isinstance(ratio, Ratio) else None
        told.append(Scaling(speedup, speedup * share, bounds))
    return tuple(told)
