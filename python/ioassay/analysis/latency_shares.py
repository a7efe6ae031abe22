"""What does each path cost? Where the time of each condition's operations went, as seen at level `explain`.

Means over the trials of a condition, percentiles included. Of several kinds of operations the first is the one that
took most of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ioassay.analysis import path_of
from ioassay.analysis.measurements.cells import Cell, label
from ioassay.analysis.measurements.cells import cells as measured
from ioassay.records.observation import EXPLAIN
from ioassay.records.record import Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.verify.latency_parts import LatencyPart, LatencyParts, latency_parts


@dataclass(frozen=True)
class Explained:
    """One condition, its kinds of operations by the time that they took."""

    point: Mapping[str, Scalar]
    trials: int
    kinds: Sequence[LatencyParts]

    @property
    def label(self) -> str:
        return label(self.point)


@dataclass(frozen=True)
class LatencyShares:
    """All conditions of a study that were explained, and the others where the level is chosen by the rate."""

    conditions: Sequence[Explained]
    dear: Sequence[str] = ()
    """Conditions whose rate makes the level cost too much."""


def analyse(records: Dataset, study: Study) -> Sequence[Any]:
    """One answer for a study that the witness explains; else what the pack of its target says of the way there."""
    if not study.may_explain:
        return path.analyse(records, study) if (path := path_of(study)) else []
    cells = measured(records, study, "total.iops").cells
    found = shares_of(records, cells)
    explained = {one.label for one in found}
    chosen = study.watch.witness != EXPLAIN and any(cell.values.size > 1 for cell in cells)
    dear = [cell.label for cell in cells if cell.label not in explained] if chosen else []
    return [LatencyShares(found, dear)] if found else []


def shares_of(records: Dataset, cells: Iterable[Cell]) -> list[Explained]:
    """The parts of conditions whose trials were watched at level `explain`."""
    found = []
    for cell in cells:
        own: dict[tuple[str, str], list[LatencyParts]] = {}
        for trial in (trial for trial in cell.trials if trial in records.observations):
            for parts in latency_parts(records.claims.get(trial, ()), records.observations[trial]):
                own.setdefault((parts.kind, parts.engine), []).append(parts)
        if own:
            kinds = sorted(map(_mean, own.values()), key=lambda one: -one.operations * one.mean_ns)
            found.append(Explained(cell.point, max(map(len, own.values())), kinds))
    return found


def _mean(trials: Sequence[LatencyParts]) -> LatencyParts:
    """Trials of one kind of operations as one."""
    mean_ns = fmean(one.mean_ns for one in trials)
    by_name: dict[str, list[LatencyPart]] = {}
    for part in (part for one in trials for part in one.parts):
        by_name.setdefault(part.name, []).append(part)
    parts = []
    for name, among in by_name.items():  # a part that some of the trials do not have took no time there
        own_ns = sum(part.mean_ns for part in among) / len(trials)
        columns = ([part.p50_ns for part in among], [part.p99_ns for part in among])
        known = [[value for value in column if value is not None] for column in columns]
        ends = [sum(column) / len(trials) if column else None for column in known]
        parts.append(LatencyPart(name, own_ns, own_ns / mean_ns, *ends))
    parts.sort(key=lambda part: -part.mean_ns)
    claimed = [one.claimed_ns for one in trials if one.claimed_ns is not None]
    seen_ns, depth = fmean(one.seen_ns for one in trials), fmean(one.depth for one in trials)
    operations, sum_ns = sum(one.operations for one in trials), fmean(one.sum_ns for one in trials)
    claimed_ns = fmean(claimed) if len(claimed) == len(trials) else None
    numbers = operations, mean_ns, seen_ns, sum_ns, claimed_ns, depth
    return LatencyParts(trials[0].kind, trials[0].engine, *numbers, parts)
