"""Conditions that a study planned and did not get: which, how their trials ended, and why. Reads no metric."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.factors import level_phrase
from ioassay.narrative import phrases
from ioassay.records.record import OK, SKIPPED, Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

_LONGEST = 240
"""Characters of a reason; the page has all of it among the warnings."""


@dataclass(frozen=True)
class MissingConditions:
    """Conditions without a single good trial that ended alike: `points` of `status` for `reason`, `trials` in all."""

    status: str
    reason: str
    points: Sequence[Mapping[str, Scalar]]
    trials: int
    every: bool
    """Whether no condition of the study went well."""

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
            every=len(bad) == len(ended),
        )
        for (status, reason), keys in groups.items()
    ]


def sentences(found: Sequence[MissingConditions], study: Study) -> list[str]:
    """A sentence each: `Not measured: under fifo (priority 99), 3 trials skipped: no permission …`."""
    return [_sentence(one, study) for one in found]


def _sentence(one: MissingConditions, study: Study) -> str:
    were = "was" if one.trials == 1 else "were"
    how = f"{were} skipped" if one.status == SKIPPED else "failed"
    why = " ".join(one.reason.split()) or "no reason was recorded"
    why = (why if len(why) <= _LONGEST else f"{why[:_LONGEST].rstrip()} …").rstrip(".")
    count = phrases.count(one.trials, "trial")
    if one.every and len(one.points) == len(_conditions(study)):
        every = {1: count, 2: "both trials"}.get(one.trials, f"all {count}")
        return f"Nothing was measured; {every} {how}: {why}."
    where = phrases.listed(_places(one, study), 6)
    return f"Not measured: {where}; {count} {how}: {why}."


def _conditions(study: Study) -> list[tuple[Scalar, ...]]:
    return list(itertools.product(*study.levels.values()))


def _places(one: MissingConditions, study: Study) -> list[str]:
    """The levels of the one factor that was lost altogether, where that says all; the conditions else."""
    factors = study.levels
    for name in factors:
        levels = list(dict.fromkeys(point[name] for point in one.points))
        others = len(_conditions(study)) // max(len(factors[name]), 1)
        if len(one.points) == len(levels) * others:
            return [level_phrase(name, level) for level in levels]
    return [phrases.levels(point) for point in one.points]
