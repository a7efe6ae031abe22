"""How much of the possible gain in write hits does each policy reach? Hit ratios and the offline optimum.

For simulated SSDs with a factor `policy`. The optimum knows the future (docs/policies.md): it bounds hits, and says
nothing of response times.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.storage.write_buffer import EVEN, POLICY, Spread
from ioassay.factors import Design
from ioassay.records.record import OK, Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

HIT_RATIO, OPTIMUM = "sim.hit_ratio", "sim.optimum_hit_ratio"
_NO_BUFFER = "none"


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


def analyse(records: Dataset, study: Study) -> list[HitBound]:
    """One answer for a study of policies; none for others."""
    trials = records.trials_of(study)
    if POLICY not in study.levels or OPTIMUM not in trials.columns:
        return []
    policies = [str(level) for level in study.levels[POLICY] if str(level) != _NO_BUFFER]
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
