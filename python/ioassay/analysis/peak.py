"""Which level of a factor is best, how sure is that, from where on is nothing gained, and does it scale by a law?

Each factor alone, where all others are fixed. Numbers with an order get a plateau and a knee; counts of workers also
scaling efficiency, Amdahl's law and the universal scalability law. Words get the best and those that may be as good.
How it is told: `peak_told.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ioassay import metrics
from ioassay.analysis import asked
from ioassay.analysis.cells import Cell, Cells, cells
from ioassay.analysis.contrast import lower_is_better
from ioassay.analysis.finding import Finding
from ioassay.analysis.shape import MARGIN, ascending
from ioassay.analysis.statistics.best import BestLevel, NotWorse, best_index, bootstrap_best, exactly_best, not_worse
from ioassay.analysis.statistics.ratio import Ratio, ratio_of_means
from ioassay.analysis.statistics.result import Floats, Interval, Undefined, mean_of
from ioassay.analysis.statistics.sample import t_interval
from ioassay.analysis.statistics.saturation import Knee, knee
from ioassay.analysis.statistics.scalability import Law, amdahl, preferred, usl
from ioassay.record import RecordSet

SEPARATE_SLICES = 4
"""Up to so many combinations of the other factors get a finding each; more share one."""
LARGEST_MISS = 0.1
"""A law that a level's mean leaves by more than this share is not what the curve follows."""
WORKERS = frozenset({"numjobs", "jobs", "iodepth", "workers", "threads", "processes", "clients", "instances"})
"""Factors that count what works at the same time: only over these does a law of scaling mean anything."""


@dataclass(frozen=True)
class Ask:
    """How it is measured: `seed` of the bootstrap; `exact` where results have no chance in them (a simulation).

    `workers` says that the factor counts workers, whatever its name is.
    """

    confidence: float
    seed: int = 1
    exact: bool = False
    workers: bool = False


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

    `plateau` are the first and last index of the levels around the best of which none is worse for sure;
    `nearly`: the first index from which on all levels up to the best are within MARGIN of it. None for words.
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
    nearly: int | None
    knee: Knee | Undefined | None
    scaling: tuple[Scaling, ...] | None
    usl: Law | Undefined | None
    amdahl: Law | Undefined | None

    @property
    def law(self) -> Law | None:
        """The law to show: one that the level means follow."""
        found = preferred(self.usl, self.amdahl)
        return None if found is None or _missed(found) else found

    @property
    def unseen(self) -> bool:
        """Whether no level can be told from another."""
        return isinstance(self.near, NotWorse) and len(self.near.members) == len(self.cells)

    def level(self, index: int) -> object:
        """A level as the study wrote it."""
        return self.cells[index].point[self.factor]


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """Findings for each response and each factor with two levels or more."""
    from ioassay.analysis import peak_told

    how = ask_of(study)
    findings: list[Finding] = []
    for response in filter(_has_better, asked.responses(records, study)):
        found = cells(records, study, response)
        for factor in found.varying():
            peaks = [measure(part, factor, how) for part in found.slices(factor) if len(part.cells) > 1]
            if 0 < len(peaks) <= SEPARATE_SLICES:
                findings += [peak_told.single(one, how) for one in peaks]
            elif peaks:
                findings.append(peak_told.shared(found, peaks, how))
    return findings


def _has_better(response: str) -> bool:
    """Of context switches neither many nor few are best; a name that nobody registered is a measure of good."""
    return not metrics.known(response) or metrics.metric(response).better != "none"


def ask_of(study: asked.Study) -> Ask:
    """What the study itself says: its confidence, its seed, whether it measures."""
    return Ask(asked.confidence(study), int(study.get("seed") or 1), not asked.is_measured(study))


def measure(part: Cells, factor: str, how: Ask) -> Peak:
    """One factor; `part` varies in nothing else and has two levels or more."""
    ordered = ascending(part.cells, factor)
    numbers = asked.numbers(tuple(cell.point[factor] for cell in ordered))
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
    found = replace(
        found,
        plateau=_around(found.best, found.near.members) if isinstance(found.near, NotWorse) else None,
        nearly=_nearly(groups, found.best, lower),
        knee=_unseen(found) or knee(x, y, how.confidence, lower=lower),
    )
    if not counts_workers(found, how):
        return found
    return replace(
        found,
        scaling=_scaling(found, groups, how),
        usl=_unseen(found) or usl(x, y, how.confidence),
        amdahl=_unseen(found) or amdahl(x, y, how.confidence),
    )


def counts_workers(found: Peak, how: Ask) -> bool:
    """Whether laws of scaling apply: a count of workers from 1 up, and a response of which more is better."""
    better = metrics.metric(found.part.response).better
    named = how.workers or found.factor.rpartition(".")[2] in WORKERS
    gains = better == "higher" or (how.workers and better != "lower")
    return named and gains and found.numbers is not None and min(found.numbers) >= 1 and positive(found)


def positive(found: Peak) -> bool:
    """Whether every repetition is above 0."""
    return all(float(cell.values.min()) > 0 for cell in found.cells)


def _missed(found: Law) -> bool:
    """Whether the law is not what happens: contention below 0, or level means away from it, and not by chance alone."""
    risk = 1 - found.alpha_interval.confidence
    if found.alpha_interval.high < 0:
        return True
    return found.worst > LARGEST_MISS and (found.lack_p is None or found.lack_p < risk)


def _unseen(found: Peak) -> Undefined | None:
    """No curve is fitted to levels that cannot be told apart: it would follow chance."""
    return Undefined("no level can be told from another") if found.unseen else None


def _around(best: int, members: Sequence[int]) -> tuple[int, int]:
    """The run of neighbours among `members` that holds `best`."""
    first = last = best
    while first - 1 in members:
        first -= 1
    while last + 1 in members:
        last += 1
    return first, last


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
