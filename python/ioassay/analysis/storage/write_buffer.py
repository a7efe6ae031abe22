"""Which write buffer is better? Mean response of each policy, and by how much one policy lowers another's.

For simulated SSDs with a factor `policy`. Policies are compared where all else is the same, the requests included, by
the one model of the response: exactly where each run is exact, and with passes as blocks where repetitions have a trace
each. A run that saturated has no mean. Where a source published what a factor changes, the same is computed here.

Two more answers: what write-behind changes, and what the choice of victims (policies with it and without, where all
else is equal; its first level is the base); and how much of the possible write hits each policy has. The offline
optimum knows the future (docs/policies.md): it bounds hits, and says nothing of response times.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.effects import level_contrasts
from ioassay.analysis.effects.level_contrasts import LevelFamily
from ioassay.factors import Design, level_key, level_number
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


class Rank(StrEnum):
    """How a policy compares with its rival, in a condition or over all."""

    BETTER = "better"
    EVEN = "even"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Reduction:
    """The mean of a policy over that of another, less one; `low` and `high` bound it where repetitions differ."""

    share: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Place:
    """All but the policy: `values` are each policy's means by repetition; `saturated` the policies without one.

    `family` compares the policies; None where only one has a mean.
    """

    where: Mapping[str, Scalar]
    values: Mapping[str, Mapping[int, float]]
    saturated: frozenset[str]
    utilisation: Mapping[str, float]
    family: LevelFamily | None

    def mean(self, policy: str) -> float | None:
        """Mean over repetitions; None where there is none, or where one of them saturated."""
        found = self.values.get(policy)
        return statistics.fmean(found.values()) if found and policy not in self.saturated else None

    @property
    def contrasts(self) -> Contrasts | None:
        """Of the policies in the order of the family."""
        known = self.family.contrasts if self.family else None
        return known if isinstance(known, Contrasts) and known.means.scale == Scale.LOG else None

    def index(self, policy: str) -> int:
        """The place of a policy in `contrasts`."""
        assert self.family is not None
        return [str(cell.point[POLICY]) for cell in self.family.cells].index(policy)

    def reduction(self, policy: str, other: str) -> Reduction | None:
        """By how much `policy` lowers the mean of `other`; None where one of them has none."""
        mean, base = self.mean(policy), self.mean(other)
        if mean is None or not base:
            return None
        if self.contrasts is None or self.contrasts.means.exact:
            return Reduction(mean / base - 1)
        bounds = self.contrasts.pair(self.index(policy), self.index(other)).interval
        return Reduction(mean / base - 1, bounds.low - 1, bounds.high - 1)

    def rank(self, policy: str, other: str) -> Rank | None:
        """How `policy` compares with `other`; None where one of them has no mean."""
        if self.contrasts is None or self.mean(policy) is None or self.mean(other) is None:
            return None
        one, two = self.index(policy), self.index(other)
        if replace(self.contrasts, margin=EVEN).equal(one, two):
            return Rank.EVEN
        if self.contrasts.above[two, one]:
            return Rank.BETTER
        return Rank.WORSE if self.contrasts.above[one, two] else Rank.UNDECIDED

    def lowest(self, policy: str, among: Sequence[str] = ()) -> bool:
        """True if no other policy has a certainly lower mean; of exact means, one that is lower by more than EVEN.

        Policies are compared `among` these, by default all.
        """
        others = [other for other in among or self.values if other != policy]
        return self.mean(policy) is not None and Rank.WORSE not in [self.rank(policy, other) for other in others]

    def wins(self, policy: str, among: Sequence[str] = ()) -> bool:
        """True if the policy's mean is certainly lower than that of every other policy, by more than EVEN.

        A tie counts for no policy.
        """
        others = [other for other in among or self.values if other != policy and self.mean(other) is not None]
        return self.mean(policy) is not None and all(self.rank(policy, other) == Rank.BETTER for other in others)


@dataclass(frozen=True)
class Spread:
    """Reductions over several conditions, as shares."""

    least: float
    middle: float
    most: float

    @classmethod
    def of(cls, shares: Sequence[float]) -> Spread:
        """Extremes and median."""
        return cls(min(shares), statistics.median(shares), max(shares))


@dataclass(frozen=True)
class Rivalry:
    """The number of conditions in which a policy's mean is certainly lower than, even with and higher than its rival's.

    In the others the data do not show it.
    """

    lower: int
    even: int
    higher: int
    undecided: int = 0

    @property
    def rank(self) -> Rank:
        """The most frequent; undecided where no other is so alone."""
        counts = {
            Rank.BETTER: self.lower,
            Rank.EVEN: self.even,
            Rank.WORSE: self.higher,
            Rank.UNDECIDED: self.undecided,
        }
        first, second = sorted(counts, key=lambda rank: -counts[rank])[:2]
        return first if counts[first] > counts[second] else Rank.UNDECIDED


@dataclass(frozen=True)
class Change:
    """What a factor changes, where a source published it: the response at one level over that at another, less one.

    `where` is all else but the policy and the arrival mode. `share` is None where one of the runs saturated.
    """

    published: published_results.Change
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
    """One study's policies under one arrival mode (`feed`); `subjects` are those that are compared with all others."""

    study: str
    response: str
    feed: str
    policies: Sequence[str]
    subjects: Sequence[str]
    factors: Sequence[str]
    """The factors of a place, without the arrival mode."""
    places: Sequence[Place]
    absorbs: bool
    """True if writes that the buffer absorbs are in no mean."""
    changes: Sequence[Change] = ()
    """Those of factors, where their like was published."""

    def shares(self, subject: str, other: str) -> list[float]:
        """The reductions in all places that have one."""
        known = (place.reduction(subject, other) for place in self.places)
        return [one.share for one in known if one is not None]

    def spreads(self, subject: str) -> dict[str, Spread]:
        """The reductions against each other policy."""
        known = {other: self.shares(subject, other) for other in self.policies if other != subject}
        return {other: Spread.of(values) for other, values in known.items() if values}

    def rivalry(self, subject: str) -> Rivalry | None:
        """The comparison of a subject with the first of them; None of the first, of others, or without a mean."""
        if subject not in self.subjects[1:]:
            return None
        ranks = Counter(rank for place in self.places if (rank := place.rank(subject, self.subjects[0])))
        order = (Rank.BETTER, Rank.EVEN, Rank.WORSE, Rank.UNDECIDED)
        return Rivalry(*(ranks[rank] for rank in order)) if ranks else None

    def undecided(self, subject: str) -> int:
        """In how many places, against how many others, the data do not show which mean is lower."""
        others = [other for other in self.policies if other != subject]
        return sum(place.rank(subject, other) == Rank.UNDECIDED for place in self.places for other in others)

    @property
    def ranked(self) -> list[str]:
        """The established policies and the first subject: variants of it are compared with it alone."""
        return [policy for policy in self.policies if policy not in self.subjects[1:]]

    @property
    def leaders(self) -> dict[tuple[str, ...], int]:
        """The ranked policy that has the lowest mean, or those that share it, and in how many places; most first."""
        lowest = [tuple(one for one in self.ranked if place.lowest(one, self.ranked)) for place in self.places]
        return dict(Counter(policies for policies in lowest if policies).most_common())

    @property
    def sweeps(self) -> list[Sweep]:
        """What each factor whose levels are numbers changes for the first subject, or the policy that leads."""
        best = next(iter(self.subjects or next(iter(self.leaders), self.policies)))
        found = (_sweep(self, factor, best) for factor in self.factors)
        return [one for one in found if one is not None]

    @property
    def exact(self) -> bool:
        """True if repetitions do not differ, so that every comparison is certain."""
        return all(place.contrasts is None or place.contrasts.means.exact for place in self.places)

    def saturated(self, policy: str) -> int:
        """The number of places where a policy has no mean, because a run saturated."""
        return sum(policy in place.saturated for place in self.places)


@dataclass(frozen=True)
class Ablation:
    """One study's policies at each level of `write_behind`, under one arrival mode.

    `conditions` are the levels of the other factors, `places[level]` what the policies did there, in that order; None
    where nothing ran.
    """

    study: str
    response: str
    feed: str
    policies: Sequence[str]
    levels: Sequence[str]
    factors: Sequence[str]
    conditions: Sequence[Mapping[str, Scalar]]
    places: Mapping[str, Sequence[Place | None]]

    def mean(self, condition: int, policy: str, level: str) -> float | None:
        """Mean of a policy; None without one."""
        place = self.places[level][condition]
        return place.mean(policy) if place else None

    def spread(self, policy: str, level: str) -> Spread | None:
        """The change of the mean from the first level to `level`, over the conditions, as shares; None without one."""
        pairs = [
            (self.mean(condition, policy, level), self.mean(condition, policy, self.levels[0]))
            for condition in range(len(self.conditions))
        ]
        shares = [mean / base - 1 for mean, base in pairs if mean is not None and base]
        return Spread.of(shares) if shares else None

    def wins(self, policy: str, level: str) -> int:
        """The number of conditions in which the policy has the lowest mean of its level alone."""
        return sum(place.wins(policy) for place in self.places[level] if place)

    def ties(self, level: str) -> int:
        """The number of conditions that have a mean, and no policy with the lowest alone."""
        known = [place for place in self.places[level] if place and any(map(place.mean, self.policies))]
        return sum(not any(place.wins(policy) for policy in self.policies) for place in known)


@dataclass(frozen=True)
class Hits:
    """All factors but the policy: hit ratios by policy, and that of the offline optimum."""

    where: Mapping[str, Scalar]
    ratios: Mapping[str, float]
    optimum: float

    def share(self, policy: str) -> float | None:
        """The share of the possible gain: hits over those of the optimum, for no buffer has no hits."""
        return self.ratios[policy] / self.optimum if policy in self.ratios and self.optimum else None

    def wins(self, policy: str) -> bool:
        """True if the policy has more hits than every other, by more than EVEN of the possible gain."""
        share = self.share(policy)
        others = [self.ratios[other] / self.optimum for other in self.ratios if other != policy and self.optimum]
        return share is not None and all(share > other + EVEN for other in others)


@dataclass(frozen=True)
class HitBound:
    """One study's policies, without the policy that has no buffer."""

    study: str
    policies: Sequence[str]
    factors: Sequence[str]
    places: Sequence[Hits]

    def spread(self, policy: str) -> Spread | None:
        """The share of the possible gain over all places; None where nothing can be gained."""
        shares = [share for place in self.places if (share := place.share(policy)) is not None]
        return Spread.of(shares) if shares else None

    def wins(self, policy: str) -> int:
        """The number of places where a policy has the most hits alone."""
        return sum(place.wins(policy) for place in self.places)

    @property
    def ties(self) -> int:
        """The number of places where no policy has the most hits alone."""
        return sum(not any(map(place.wins, self.policies)) for place in self.places)


def _sweep(one: Reductions, factor: str, policy: str) -> Sweep | None:
    """None for words, for one level, and where no place has a mean at all levels."""
    numbers = {level_key(factor, place.where[factor]): place.where[factor] for place in one.places}
    order = sorted(numbers, key=lambda key: level_number(factor, numbers[key]) or 0.0)
    rows: dict[tuple[Any, ...], dict[str, float]] = {}
    for place in one.places:
        mean, rest = place.mean(policy), tuple(level for name, level in place.where.items() if name != factor)
        if mean:
            rows.setdefault(rest, {})[level_key(factor, place.where[factor])] = mean
    known = [[row[key] for key in order] for row in rows.values() if len(row) == len(order)]
    if len(order) < 2 or not known or any(level_number(factor, level) is None for level in numbers.values()):
        return None
    spreads = [Spread.of([row[place] / row[0] - 1 for row in known]) for place in range(1, len(order))]
    settled = (first for first in range(len(order) - 1) if all(_flat(row[first:]) for row in known))
    return Sweep(factor, policy, [numbers[key] for key in order], spreads, next(settled, None))


def _flat(means: Sequence[float]) -> bool:
    return max(means) <= (1 + MARGIN) * min(means)


def analyse(records: Dataset, study: Study) -> list[Ablation | Reductions | HitBound]:
    """What write-behind changes, who is best, and who has how many hits. None for other studies."""
    compared = reductions(records, study)
    return [*_ablations(study, compared), *compared, *_hit_bounds(records, study)]


def reductions(records: Dataset, study: Study) -> list[Reductions]:
    """One answer for each arrival mode, that of the study's first figure first."""
    factors = study.levels
    response = _response(records, study)
    if POLICY not in factors or response is None or not _is_simulated(records, study):
        return []
    found = list(places(records, study, response))
    policies = [str(level) for level in factors[POLICY] if any(_has(place, str(level)) for place in found)]
    if len(policies) < 2:
        return []
    feeds = _as_drawn(study, list(dict.fromkeys(str(place.where.get(FEED, "")) for place in found)))
    return [
        Reductions(
            study=study.name,
            response=response,
            feed=feed,
            policies=policies,
            subjects=[policy for policy in policies if policy not in CLASSICS],
            factors=[name for name in factors if name not in (POLICY, FEED)],
            places=[place for place in found if str(place.where.get(FEED, "")) == feed],
            absorbs=study.params.get("mode", "reshape") == "reshape",
            changes=[
                change
                for known in published_results.changes_of(study.name)
                for change in _changes(records, study, known, feed)
            ],
        )
        for feed in feeds
    ]


def _ablations(study: Study, answers: Sequence[Reductions]) -> list[Ablation]:
    """One for each arrival mode of a study with two levels of write-behind."""
    levels = [str(level) for level in study.levels.get(WRITE_BEHIND, ())]
    others = [name for name in study.levels if name not in (POLICY, FEED, WRITE_BEHIND)]
    return [_ablation(answer, levels, others) for answer in answers] if len(levels) > 1 else []


def _ablation(answer: Reductions, levels: Sequence[str], others: Sequence[str]) -> Ablation:
    known = {
        (str(place.where[WRITE_BEHIND]), *(place.where[name] for name in others)): place for place in answer.places
    }
    keys = list(dict.fromkeys(key[1:] for key in known))
    return Ablation(
        study=answer.study,
        response=answer.response,
        feed=answer.feed,
        policies=answer.policies,
        levels=levels,
        factors=others,
        conditions=[dict(zip(others, key, strict=True)) for key in keys],
        places={level: [known.get((level, *key)) for key in keys] for level in levels},
    )


def _hit_bounds(records: Dataset, study: Study) -> list[HitBound]:
    """One for a study whose runs know the offline optimum."""
    trials = records.trials_of(study)
    if POLICY not in study.levels or OPTIMUM not in trials.columns:
        return []
    policies = [str(level) for level in study.levels[POLICY] if str(level) != "none"]
    design = Design({name: levels for name, levels in study.levels.items() if name != POLICY})
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in trials.iter_rows(named=True):
        if row["status"] == OK and row[OPTIMUM] is not None and str(row[POLICY]) in policies:
            rows.setdefault(design.key(row), []).append(row)
    parts = sorted(rows.values(), key=lambda part: design.place(part[0]))
    places = [_hits(design.point(part[0]), part) for part in parts]
    factors = [name for name in study.levels if name != POLICY]
    return [HitBound(study.name, policies, factors, places)] if len(policies) > 1 and places else []


def _hits(where: Mapping[str, Scalar], rows: Sequence[Mapping[str, Any]]) -> Hits:
    """Means over repetitions."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratios.setdefault(str(row[POLICY]), []).append(row[HIT_RATIO])
    optimum = statistics.fmean(row[OPTIMUM] for row in rows)
    return Hits(where, {policy: statistics.fmean(values) for policy, values in ratios.items()}, optimum)


def _as_drawn(study: Study, feeds: Sequence[str]) -> list[str]:
    """The arrival modes in the order of the figures, which the reader sees first."""
    drawn = [str((figure.model_extra or {}).get("where", {}).get(FEED, "")) for figure in study.figures]
    return sorted(feeds, key=lambda feed: drawn.index(feed) if feed in drawn else len(drawn))


def _changes(records: Dataset, study: Study, known: published_results.Change, feed: str) -> Iterator[Change]:
    """In each condition that has both levels of the factor."""
    ends: dict[str, list[tuple[dict[str, Scalar], Place]]] = {}
    for place in places(records, study, known.response):
        if known.factor in place.where and str(place.where.get(FEED, "")) == feed and _has(place, known.policy):
            rest = {name: level for name, level in place.where.items() if name not in (known.factor, FEED)}
            ends.setdefault(level_key(known.factor, place.where[known.factor]), []).append((rest, place))
    start, end = (ends.get(level_key(known.factor, level), []) for level in (known.start, known.end))
    for where, before in start:
        for after in (place for rest, place in end if rest == where):
            base, mean = before.mean(known.policy), after.mean(known.policy)
            yield Change(known, where, None if mean is None or not base else mean / base - 1)


def _has(place: Place, policy: str) -> bool:
    return policy in place.saturated or place.mean(policy) is not None


def places(records: Dataset, study: Study, response: str) -> Iterator[Place]:
    """Every combination of the other factors that has a value, in the study's order."""
    design = Design({name: levels for name, levels in study.levels.items() if name != POLICY})
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row["status"] == OK:
            rows.setdefault(design.key(row), []).append(row)
    families = level_contrasts.families(records, study, response).get(POLICY, [])
    known = [({name: level for name, level in one.cells[0].point.items() if name != POLICY}, one) for one in families]
    for part in sorted(rows.values(), key=lambda part: design.place(part[0])):
        where = design.point(part[0])
        yield _place(where, part, response, next((one for point, one in known if point == where), None))


def _place(
    where: Mapping[str, Scalar], rows: Sequence[Mapping[str, Any]], response: str, family: LevelFamily | None
) -> Place:
    values: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.get(response) is not None:
            values.setdefault(str(row[POLICY]), {})[row["repetition"]] = row[response]
    saturated = frozenset(str(row[POLICY]) for row in rows if row.get(SATURATED_METRIC))
    busy = {str(row[POLICY]): row[UTILISATION] for row in rows if row.get(UTILISATION) is not None}
    return Place(where, values, saturated, busy, family)


def _is_simulated(records: Dataset, study: Study) -> bool:
    trials = records.trials_of(study)
    return any(name.startswith("sim.") and trials[name].null_count() < trials.height for name in trials.columns)


def _response(records: Dataset, study: Study) -> str | None:
    """The mean latency that the study asks for; that of all requests where it asks for none."""
    named = [name for name in records.responses(study) if name.endswith(".lat.mean")]
    usual = [name for name in ("total.lat.mean",) if name in records.trials.columns]
    return next(iter([*named, *usual]), None)
