"""Conditions that a study planned and did not get: which, how their trials ended, and why. Reads no metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.factors import level_key
from ioassay.records.record import OK, Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class MissingConditions:
    """Conditions without a single good trial that ended alike: `points` of `status` for `reason`, `trials` in all."""

    status: str
    reason: str
    points: Sequence[Mapping[str, Scalar]]
    trials: int
    factor: str | None
    """The one whose levels are missing in every combination with the others; None where it is single conditions."""
    all_conditions: bool
    """True where these are all conditions of the study."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, as findings have it."""
        return {
            "status": self.status,
            "reason": self.reason,
            "points": [dict(point) for point in self.points],
            "trials": self.trials,
        }


def missing(records: Dataset, study: Study) -> list[MissingConditions]:
    """Grouped by how and why they ended; conditions where any trial went well are not lost."""
    design = study.design
    ended: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    points: dict[tuple[str, ...], dict[str, Scalar]] = {}
    for row in records.trials_of(study).iter_rows(named=True):
        key = design.key(row)
        points.setdefault(key, design.point(row))
        ended.setdefault(key, []).append((row["status"], row["reason"] or ""))
    bad = {key: found for key, found in ended.items() if all(status != OK for status, _ in found)}
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for key, found in bad.items():
        groups.setdefault(found[0], []).append(key)
    return [
        MissingConditions(
            status=status,
            reason=reason,
            points=[points[key] for key in keys],
            trials=sum(len(bad[key]) for key in keys),
            factor=_whole_factor(study, [points[key] for key in keys]),
            all_conditions=len(bad) == len(ended) and len(keys) == math.prod(map(len, study.levels.values())),
        )
        for (status, reason), keys in groups.items()
    ]


def _whole_factor(study: Study, points: Sequence[Mapping[str, Scalar]]) -> str | None:
    """The factor of which these points are some levels in every combination with the others."""
    conditions = math.prod(len(levels) for levels in study.levels.values())
    for name, levels in study.levels.items():
        own = {level_key(name, point[name]) for point in points}
        if len(points) == len(own) * (conditions // max(len(levels), 1)):
            return name
    return None
