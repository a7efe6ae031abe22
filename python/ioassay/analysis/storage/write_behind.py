"""What does write-behind change, and what the choice of victims? Policies with it and without, where all else is equal.

For simulated SSDs with the factors `policy` and `write_behind`. The first level of `write_behind` is the base. Means of
saturated runs are left out, as in `write_buffer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.analysis.storage import write_buffer
from ioassay.analysis.storage.write_buffer import FEED, POLICY, Place, Spread
from ioassay.records.record import Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

WRITE_BEHIND = "write_behind"


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


def analyse(records: Dataset, study: Study) -> list[Ablation]:
    """One answer for each arrival mode. None for other studies."""
    factors = study.levels
    if WRITE_BEHIND not in factors or len(factors[WRITE_BEHIND]) < 2:
        return []
    levels = [str(level) for level in factors[WRITE_BEHIND]]
    others = [name for name in factors if name not in (POLICY, FEED, WRITE_BEHIND)]
    return [_ablation(answer, levels, others) for answer in write_buffer.analyse(records, study)]


def _ablation(answer: write_buffer.Reductions, levels: Sequence[str], others: Sequence[str]) -> Ablation:
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
