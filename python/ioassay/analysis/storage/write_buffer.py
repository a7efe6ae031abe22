"""Which write buffer is better? Mean response of each policy, and by how much one policy lowers another's.

For simulated SSDs with a factor `policy`. Policies are compared where all else is the same, the requests included:
a comparison is of two runs over one trace, and over repetitions it is paired. A run that saturated has no mean.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ioassay.factors import Design
from ioassay.records.record import OK, Scalar
from ioassay.stats.result import Undefined
from ioassay.stats.sample import t_interval
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

POLICY, FEED = "policy", "feed"
SATURATED_METRIC, UTILISATION = "sim.saturated", "sim.utilisation"
CLASSICS = ("none", "fifo", "lru", "clock", "bplru", "bplru-padded", "fab")
"""The established policies; every other policy of a study is compared with all."""
EVEN = 0.005
"""Means closer than this share are even."""


@dataclass(frozen=True)
class Reduction:
    """The mean of a policy over that of another, less one; `low` and `high` bound it over repetitions, if there are."""

    share: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Place:
    """All but the policy: `values` are each policy's means by repetition; `saturated` the policies without one."""

    where: Mapping[str, Scalar]
    values: Mapping[str, Mapping[int, float]]
    saturated: frozenset[str]
    utilisation: Mapping[str, float]

    def mean(self, policy: str) -> float | None:
        """Mean over repetitions; None where there is none, or where one of them saturated."""
        found = self.values.get(policy)
        return statistics.fmean(found.values()) if found and policy not in self.saturated else None

    def reduction(self, policy: str, other: str, confidence: float) -> Reduction | None:
        """By how much `policy` lowers the mean of `other`; None where one of them has none."""
        mean, base = self.mean(policy), self.mean(other)
        if mean is None or not base:
            return None
        both = self.values[policy].keys() & self.values[other].keys()
        pairs = [self.values[policy][one] / self.values[other][one] - 1 for one in sorted(both)]
        interval = t_interval(pairs, confidence) if len(pairs) > 1 else None
        if interval is None or isinstance(interval, Undefined):
            return Reduction(mean / base - 1)
        return Reduction(statistics.fmean(pairs), interval.low, interval.high)


@dataclass(frozen=True)
class Spread:
    """Reductions over several conditions, as shares."""

    least: float
    middle: float
    most: float


class Rank(StrEnum):
    """How a policy compares with its rival over all conditions."""

    BETTER = "better"
    EVEN = "even"
    WORSE = "worse"


@dataclass(frozen=True)
class Rivalry:
    """The number of conditions in which a policy's mean is lower than, even with and higher than its rival's."""

    lower: int
    even: int
    higher: int

    @property
    def rank(self) -> Rank:
        """Better where it is lower in most conditions."""
        if self.lower > self.higher and self.lower > self.even:
            return Rank.BETTER
        return Rank.WORSE if self.higher > self.lower else Rank.EVEN


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
    confidence: float
    absorbs: bool
    """True if writes that the buffer absorbs are in no mean."""

    def reduction(self, place: Place, subject: str, other: str) -> Reduction | None:
        """By how much `subject` lowers the mean of `other` in one place."""
        return place.reduction(subject, other, self.confidence)

    def shares(self, subject: str, other: str) -> list[float]:
        """The reductions in all places that have one."""
        known = (self.reduction(place, subject, other) for place in self.places)
        return [one.share for one in known if one is not None]

    def spreads(self, subject: str) -> dict[str, Spread]:
        """The reductions against each other policy."""
        known = {other: self.shares(subject, other) for other in self.policies if other != subject}
        return {
            other: Spread(min(values), statistics.median(values), max(values))
            for other, values in known.items()
            if values
        }

    def rivalry(self, subject: str) -> Rivalry | None:
        """Of the second of two subjects its comparison with the first; None of others, or without a mean."""
        if len(self.subjects) != 2 or subject != self.subjects[1]:
            return None
        values = self.shares(subject, self.subjects[0])
        lower, higher = sum(value < -EVEN for value in values), sum(value > EVEN for value in values)
        return Rivalry(lower, len(values) - lower - higher, higher) if values else None

    def wins(self, policy: str) -> int:
        """The number of places where no other policy has a mean that is lower by more than EVEN."""
        wins = 0
        for place in self.places:
            means = {one: mean for one in self.policies if (mean := place.mean(one)) is not None}
            wins += policy in means and means[policy] * (1 - EVEN) <= min(means.values())
        return wins

    def saturated(self, policy: str) -> int:
        """The number of places where a policy has no mean, because a run saturated."""
        return sum(policy in place.saturated for place in self.places)


def analyse(records: Dataset, study: Study) -> list[Reductions]:
    """One answer for each arrival mode. None for other studies."""
    factors = study.levels
    response = _response(records, study)
    if POLICY not in factors or response is None or not _is_simulated(records, study):
        return []
    found = list(places(records, study, response))
    policies = [str(level) for level in factors[POLICY] if any(_has(place, str(level)) for place in found)]
    if len(policies) < 2:
        return []
    feeds = dict.fromkeys(str(place.where.get(FEED, "")) for place in found)
    return [
        Reductions(
            study=study.name,
            response=response,
            feed=feed,
            policies=policies,
            subjects=[policy for policy in policies if policy not in CLASSICS],
            factors=[name for name in factors if name not in (POLICY, FEED)],
            places=[place for place in found if str(place.where.get(FEED, "")) == feed],
            confidence=study.analysis.confidence,
            absorbs=study.params.get("mode", "reshape") == "reshape",
        )
        for feed in feeds
    ]


def _has(place: Place, policy: str) -> bool:
    return policy in place.saturated or place.mean(policy) is not None


def places(records: Dataset, study: Study, response: str) -> Iterator[Place]:
    """Every combination of the other factors that has a value, in the study's order."""
    design = Design({name: levels for name, levels in study.levels.items() if name != POLICY})
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        if row["status"] == OK:
            rows.setdefault(design.key(row), []).append(row)
    for part in sorted(rows.values(), key=lambda part: design.place(part[0])):
        yield _place(design.point(part[0]), part, response)


def _place(where: Mapping[str, Scalar], rows: Sequence[Mapping[str, Any]], response: str) -> Place:
    values: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.get(response) is not None:
            values.setdefault(str(row[POLICY]), {})[row["repetition"]] = row[response]
    saturated = frozenset(str(row[POLICY]) for row in rows if row.get(SATURATED_METRIC))
    busy = {str(row[POLICY]): row[UTILISATION] for row in rows if row.get(UTILISATION) is not None}
    return Place(where, values, saturated, busy)


def _is_simulated(records: Dataset, study: Study) -> bool:
    trials = records.trials_of(study)
    return any(name.startswith("sim.") and trials[name].null_count() < trials.height for name in trials.columns)


def _response(records: Dataset, study: Study) -> str | None:
    """The mean latency that the study asks for; that of all requests where it asks for none."""
    named = [name for name in records.responses(study) if name.endswith(".lat.mean")]
    usual = [name for name in ("total.lat.mean",) if name in records.trials.columns]
    return next(iter([*named, *usual]), None)
