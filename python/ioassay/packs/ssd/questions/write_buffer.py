"""Which write buffer is better? Mean response of each policy, and by how much one policy lowers another's.

For simulated SSDs with a factor `policy`. Policies are compared where all else is the same, the requests included, by
the one model of the response: exactly where each run is exact, and with passes as blocks where repetitions have a trace
each. A run that saturated has no mean. Where a source published what a factor changes, the same is computed here.

Two more answers: what write-behind changes, and what the choice of victims (policies with it and without, where all
else is equal; its first level is the base); and how much of the possible write hits each policy has. The offline
optimum knows the future (docs/policies.md): it bounds hits, and says nothing of response times.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ioassay.analysis import one_factor, published
from ioassay.factors import LevelIndex, level_key, level_number
from ioassay.records.record import OK, Scalar
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN, Contrasts
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

POLICY, FEED, WRITE_BEHIND = "policy", "feed", "write_behind"
HIT_RATIO, OPTIMUM = "sim.hit_ratio", "sim.optimum_hit_ratio"
SATURATED_METRIC, UTILISATION = "sim.saturated", "sim.utilisation"
CLASSICS = ("none", "fifo", "lru", "clock", "sieve", "s3-fifo", "arc", "bplru", "bplru-padded", "fab")
"""The established policies; every other policy of a study is compared with all."""
EVEN = 0.005
"""Means that are certainly closer than this share are even."""
Leaders = dict[tuple[str, ...], int]
"""The policy that is ahead, or those that share it, and in how many places; most first."""


class Rank(StrEnum):
    """How a policy compares with its rival, in a condition or over all."""

    BETTER = "better"
    EVEN = "even"
    WORSE = "worse"
    UNDECIDED = "undecided"


def majority(ranks: Mapping[Rank, int]) -> Rank:
    """The most frequent; undecided where no other is so alone."""
    most = [rank for rank, number in ranks.items() if number == max(ranks.values())]
    return most[0] if len(most) == 1 else Rank.UNDECIDED


@dataclass(frozen=True)
class Reduction:
    """The mean of a policy over that of another, less one; `low` and `high` bound it where repetitions differ."""

    share: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Place:
    """All but the policy: each policy's mean over repetitions, and the policies that saturated in one of them.

    `contrasts` compare the policies in `order`; None where only one has a mean. `busy` is the drive's utilisation
    without a buffer. `hits`: hit ratios of the policies that have one, and that of the offline `optimum` where known.
    """

    where: Mapping[str, Scalar]
    means: Mapping[str, float]
    saturated: frozenset[str]
    busy: float | None
    order: Sequence[str]
    contrasts: Contrasts | None
    hits: Mapping[str, float]
    optimum: float | None

    def reduction(self, policy: str, other: str) -> Reduction | None:
        """By how much `policy` lowers the mean of `other`; None where one of them has none."""
        mean, base = self.means.get(policy), self.means.get(other)
        if mean is None or not base:
            return None
        if self.contrasts is None or self.contrasts.means.exact:
            return Reduction(mean / base - 1)
        bounds = self.contrasts.pair(self.order.index(policy), self.order.index(other)).interval
        return Reduction(mean / base - 1, bounds.low - 1, bounds.high - 1)

    def rank(self, policy: str, other: str) -> Rank | None:
        """How `policy` compares with `other`; None where one of them has no mean."""
        if self.contrasts is None or not {policy, other} <= self.means.keys():
            return None
        one, two = self.order.index(policy), self.order.index(other)
        if replace(self.contrasts, margin=EVEN).equal(one, two):
            return Rank.EVEN
        if self.contrasts.above[two, one]:
            return Rank.BETTER
        return Rank.WORSE if self.contrasts.above[one, two] else Rank.UNDECIDED

    def lowest(self, among: Sequence[str]) -> tuple[str, ...]:
        """The policies than which no other has a certainly lower mean; of exact means, one lower by more than EVEN."""
        known = [policy for policy in among if policy in self.means]
        return tuple(one for one in known if Rank.WORSE not in [self.rank(one, two) for two in known if two != one])

    def share(self, policy: str) -> float | None:
        """The share of the possible gain: hits over those of the optimum, for no buffer has no hits."""
        return self.hits[policy] / self.optimum if policy in self.hits and self.optimum else None

    @property
    def most_hits(self) -> tuple[str, ...]:
        """The policies that have the most hits, to within EVEN of the possible gain."""
        shares = {policy: self.share(policy) or 0.0 for policy in self.hits}
        return tuple(policy for policy, share in shares.items() if share >= max(shares.values()) - EVEN)


def leaders(ahead: Iterable[tuple[str, ...]]) -> Leaders:
    """In how many places which policies are ahead; places without any are left out."""
    return dict(Counter(policies for policies in ahead if policies).most_common())


@dataclass(frozen=True)
class Spread:
    """Reductions over several conditions, as shares."""

    least: float
    middle: float
    most: float

    @classmethod
    def of(cls, shares: Iterable[float | None]) -> Spread | None:
        """Extremes and median of those that are known."""
        known = [share for share in shares if share is not None]
        return cls(min(known), statistics.median(known), max(known)) if known else None


@dataclass(frozen=True)
class Change:
    """What a factor changes, where a source published it: the response at one level over that at another, less one.

    `where` is all else but the policy and the arrival mode. `share` is None where one of the runs saturated.
    """

    published: PublishedChange
    where: Mapping[str, Scalar]
    share: float | None


@dataclass(frozen=True)
class Sweep:
    """What a factor changes for one policy: `changes` of the mean from the first level to each later one, over places.

    `settles`: the place of the level from which on the mean changes by at most MARGIN anywhere; None where it does not.
    """

    factor: str
    policy: str
    levels: Sequence[Scalar]
    changes: Sequence[Spread]
    settles: int | None


@dataclass(frozen=True)
class Reductions:
    """One study's policies under one arrival mode (`feed`)."""

    study: str
    response: str
    feed: str
    policies: Sequence[str]
    places: Sequence[Place]
    absorbs: bool = False
    """True if writes that the buffer absorbs are in no mean."""
    changes: Sequence[Change] = ()
    """Those of factors, where their like was published."""

    @property
    def subjects(self) -> list[str]:
        """The policies that are compared with all others."""
        return [policy for policy in self.policies if policy not in CLASSICS]

    @property
    def factors(self) -> list[str]:
        """Those of a place, without the arrival mode."""
        return [name for name in self.places[0].where if name != FEED]

    def spreads(self, subject: str) -> dict[str, Spread]:
        """The reductions against each other policy, over all places that have one."""
        others = [policy for policy in self.policies if policy != subject]
        found = {other: [place.reduction(subject, other) for place in self.places] for other in others}
        spreads = {other: Spread.of(one.share for one in known if one) for other, known in found.items()}
        return {other: spread for other, spread in spreads.items() if spread}

    def ranks(self, subject: str, *others: str) -> Counter[Rank]:
        """In how many places a policy has which rank, against each of the others."""
        return Counter(rank for place in self.places for other in others if (rank := place.rank(subject, other)))

    @property
    def undecided(self) -> int:
        """In how many comparisons of the first subject the data do not show which mean is lower."""
        return sum(self.ranks(one, *self.policies)[Rank.UNDECIDED] for one in self.subjects[:1])

    @property
    def ranked(self) -> list[str]:
        """The established policies and the first subject: variants of it are compared with it alone."""
        return [policy for policy in self.policies if policy not in self.subjects[1:]]

    @property
    def leaders(self) -> Leaders:
        """Which of the ranked policies have the lowest mean."""
        return leaders(place.lowest(self.ranked) for place in self.places)

    @property
    def sweeps(self) -> list[Sweep]:
        """What each factor whose levels are numbers changes for the first subject, or the policy that leads."""
        best = next(iter([*self.subjects, *itertools.chain(*self.leaders), *self.policies]))
        return [one for factor in self.factors if (one := _sweep(self, factor, best))]

    @property
    def exact(self) -> bool:
        """True if repetitions do not differ, so that every comparison is certain."""
        return all(place.contrasts is None or place.contrasts.means.exact for place in self.places)

    @property
    def saturated(self) -> dict[str, int]:
        """In how many places a policy has no mean, because a run saturated."""
        counts = {policy: sum(policy in place.saturated for place in self.places) for policy in self.policies}
        return {policy: number for policy, number in counts.items() if number}

    def along(self, factor: str) -> list[tuple[dict[str, Scalar], dict[str, Place]]]:
        """The places that differ in the factor alone: where they are, and each of them by its level."""
        rows: dict[tuple[Any, ...], dict[str, Place]] = {}
        for place in self.places:
            rest = tuple((name, level) for name, level in place.where.items() if name not in (factor, FEED))
            rows.setdefault(rest, {})[level_key(factor, place.where[factor])] = place
        return [(dict(rest), row) for rest, row in rows.items()]


@dataclass(frozen=True)
class Ablation:
    """One study's policies at each level of `write_behind`, under one arrival mode.

    `rows`: the levels of the other factors, and what the policies did there by level.
    """

    answer: Reductions
    levels: Sequence[str]
    rows: Sequence[tuple[Mapping[str, Scalar], Mapping[str, Place]]]

    def spread(self, policy: str, level: str) -> Spread | None:
        """The change of the mean from the first level to `level`, over the conditions, as shares; None without one."""
        pairs = [(row[self.levels[0]], row[level]) for _, row in self.rows if {self.levels[0], level} <= row.keys()]
        return Spread.of(_change(before, after, policy) for before, after in pairs)

    def leaders(self, level: str) -> Leaders:
        """Which policies have the lowest mean of their level."""
        return leaders(row[level].lowest(self.answer.policies) for _, row in self.rows if level in row)


@dataclass(frozen=True)
class HitBound:
    """One study's policies, without the policy that has no buffer."""

    study: str
    policies: Sequence[str]
    places: Sequence[Place]

    def spread(self, policy: str) -> Spread | None:
        """The share of the possible gain over all places; None where nothing can be gained."""
        return Spread.of(place.share(policy) for place in self.places)

    @property
    def leaders(self) -> Leaders:
        """Which policies have the most hits."""
        return leaders(place.most_hits for place in self.places)


def _sweep(one: Reductions, factor: str, policy: str) -> Sweep | None:
    """None for words, for one level, and where no place has a mean at all levels."""
    levels = {level_key(factor, place.where[factor]): place.where[factor] for place in one.places}
    numbers = {key: number for key, level in levels.items() if (number := level_number(factor, level)) is not None}
    order = sorted(numbers, key=lambda key: numbers[key])
    rows = [
        [row[key].means.get(policy, 0.0) for key in order] for _, row in one.along(factor) if len(row) == len(levels)
    ]
    known = [row for row in rows if all(row)]
    if len(levels) < 2 or len(numbers) < len(levels) or not known:
        return None
    spreads = [Spread.of(row[place] / row[0] - 1 for row in known) for place in range(1, len(order))]
    settled = (
        first
        for first in range(len(order) - 1)
        if all(max(row[first:]) <= (1 + MARGIN) * min(row[first:]) for row in known)
    )
    return Sweep(factor, policy, [levels[key] for key in order], [one for one in spreads if one], next(settled, None))


def answers(records: Dataset, study: Study) -> list[Ablation | Reductions | HitBound]:
    """What write-behind changes, who is best, and who has how many hits. None for other studies."""
    if POLICY not in study.levels:
        return []
    compared = reductions(records, study)
    behind = [level_key(WRITE_BEHIND, level) for level in study.levels.get(WRITE_BEHIND, ())]
    ablations = [Ablation(one, behind, one.along(WRITE_BEHIND)) for one in compared if len(behind) > 1]
    buffers = [str(level) for level in study.levels[POLICY] if str(level) != "none"]
    bounded = [place for place in _places(records, study, _response(records, study)) if place.hits]
    bounds = [HitBound(study.name, buffers, bounded)] if len(buffers) > 1 and bounded else []
    return [*ablations, *compared, *bounds]


def reductions(records: Dataset, study: Study) -> list[Reductions]:
    """One answer for each arrival mode, that of the study's first figure first."""
    response = _response(records, study)
    trials = records.trials_of(study)
    simulated = any(name.startswith("sim.") and trials[name].null_count() < trials.height for name in trials.columns)
    if POLICY not in study.levels or response is None or not simulated:
        return []
    found = list(_places(records, study, response))
    seen = {policy for place in found for policy in (*place.means, *place.saturated)}
    policies = [str(level) for level in study.levels[POLICY] if str(level) in seen]
    if len(policies) < 2:
        return []
    absorbs = study.params.get("mode", "reshape") == "reshape"
    answers = [
        Reductions(study.name, response, feed, policies, group, absorbs, list(_changes(records, study, feed)))
        for feed, group in _by_feed(found).items()
    ]
    drawn = [str((figure.model_extra or {}).get("where", {}).get(FEED, "")) for figure in study.figures]
    return sorted(answers, key=lambda one: drawn.index(one.feed) if one.feed in drawn else len(drawn))


def _by_feed(places: Iterable[Place]) -> dict[str, list[Place]]:
    groups: dict[str, list[Place]] = {}
    for place in places:
        groups.setdefault(str(place.where.get(FEED, "")), []).append(place)
    return groups


def _changes(records: Dataset, study: Study, feed: str) -> Iterator[Change]:
    """In each condition that has both levels of a factor of which a change was published."""
    for known in published_changes(study.name):
        group = _by_feed(_places(records, study, known.response)).get(feed, [])
        one = Reductions(study.name, known.response, feed, [known.policy], group)
        ends = [level_key(known.factor, level) for level in (known.start, known.end)]
        for where, row in one.along(known.factor) if group and known.factor in one.factors else ():
            before, after = map(row.get, ends)
            if before and after and all(known.policy in {*end.means, *end.saturated} for end in (before, after)):
                yield Change(known, where, _change(before, after, known.policy))


def _change(before: Place, after: Place, policy: str) -> float | None:
    base, mean = before.means.get(policy), after.means.get(policy)
    return None if mean is None or not base else mean / base - 1


def _means(rows: Sequence[Mapping[str, Any]], metric: str | None) -> dict[str, float]:
    """By policy, over repetitions."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if metric and row.get(metric) is not None:
            values.setdefault(str(row[POLICY]), []).append(row[metric])
    return {policy: statistics.fmean(found) for policy, found in values.items()}


def _places(records: Dataset, study: Study, response: str | None) -> Iterator[Place]:
    """Every combination of the other factors that has a value, in the study's order."""
    design = LevelIndex({name: levels for name, levels in study.levels.items() if name != POLICY})
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row["status"] == OK:
            groups.setdefault(design.key(row), []).append(row)
    families = one_factor.families(records, study, response).get(POLICY, []) if response else []
    compared = {design.key(family.cells[0].point): family for family in families}
    for key, rows in sorted(groups.items(), key=lambda group: design.place(group[1][0])):
        saturated = frozenset(str(row[POLICY]) for row in rows if row.get(SATURATED_METRIC))
        family = compared.get(key)
        contrasts = family.contrasts if family and isinstance(family.contrasts, Contrasts) else None
        bounded = [row for row in rows if row.get(OPTIMUM) is not None and str(row[POLICY]) != "none"]
        yield Place(
            where=design.point(rows[0]),
            means={policy: mean for policy, mean in _means(rows, response).items() if policy not in saturated},
            saturated=saturated,
            busy=_means(rows, UTILISATION).get("none"),
            order=[str(cell.point[POLICY]) for cell in family.cells] if family else (),
            contrasts=contrasts if contrasts and contrasts.means.scale == Scale.LOG else None,
            hits=_means(bounded, HIT_RATIO),
            optimum=statistics.fmean(row[OPTIMUM] for row in bounded) if bounded else None,
        )


def _response(records: Dataset, study: Study) -> str | None:
    """The mean latency that the study asks for; that of all requests where it asks for none."""
    named = [name for name in records.responses(study) if name.endswith(".lat.mean")]
    usual = [name for name in ("total.lat.mean",) if name in records.trials.columns]
    return next(iter([*named, *usual]), None)


@dataclass(frozen=True)
class PublishedChange:
    """What one source published of a factor: from level `start` to `end`, `policy`'s `response` changes by `percent`.

    `percent` has a number for each of its traces; none where the source states only that the response is higher.
    """

    source: str
    policy: str
    study: str
    factor: str
    start: Scalar
    end: Scalar
    response: str
    reading: str
    percent: tuple[float, ...] = ()


def published_changes(study: str) -> list[PublishedChange]:
    table: Any = published("change", study)
    return [
        PublishedChange(table["source"], table["policy"], **{**change, "percent": tuple(change.get("percent", ()))})
        for change in (table or {"change": ()})["change"]
        if change["study"] == study
    ]
