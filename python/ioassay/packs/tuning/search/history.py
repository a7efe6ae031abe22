"""What a search was told, point by point, and the form in which its model takes it. Proposes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from ioassay.packs.tuning.search.candidate_grid import Grid, Key
from ioassay.packs.tuning.search.gaussian_process import Observed

MODELLED = 200
"""Points that a model is made of; its cost grows with their third power."""
_PRUNED_COUNT = 0.25
"""Of a measurement: what a value that was foretold from a short run is worth."""
_WORST = 1e6
"""Violations beyond this are alike; infinity is what a value that is missing violates by."""
_DEPTH = 20.0
"""Values farther below the best than this many times the median's distance are all equally bad."""


@dataclass
class Measurement:
    """Of one point: values and violations of its whole trials; what a pruned one foretold; whether one failed."""

    values: list[float] = field(default_factory=list)
    violations: list[tuple[float, ...]] = field(default_factory=list)
    foretold: float | None = None
    failed: int = 0

    @property
    def mean(self) -> float:
        return fmean(self.values) if self.values else math.nan

    def excess(self) -> float:
        """Sum over the constraints of how far they are broken on average; 0 where all hold."""
        return sum(max(0.0, fmean(column)) for column in zip(*self.violations, strict=True))


@dataclass
class History:
    """Everything that was told."""

    sign: float
    """1 where large values are good, -1 where small ones are."""
    constraints: int
    points: dict[Key, Measurement] = field(default_factory=dict)

    def at(self, key: Key) -> Measurement:
        return self.points.setdefault(key, Measurement())

    def measured(self) -> list[Key]:
        """The points that have a value of their own, in the order in which they were first told."""
        return [key for key, seen in self.points.items() if seen.values]

    def closed(self) -> set[Key]:
        """The points that nobody should ask for again: those that failed or were pruned, and never went well."""
        return {key for key, seen in self.points.items() if not seen.values}

    def by_merit(self) -> list[Key]:
        """All points, best first: the feasible by their means, what was foretold of pruned ones, those that break a
        constraint by how far, and those that failed."""

        def merit(key: Key) -> tuple[int, float, float]:
            seen = self.points[key]
            value = seen.mean if seen.values else seen.foretold
            if value is None:
                return 2, 0.0, 0.0
            excess = seen.excess()
            return int(excess > 0), excess, -self.sign * value

        return sorted(self.points, key=merit)

    def scale(self) -> Callable[[float], float]:
        """From values to what is modelled: large is good; logarithms where all are positive, because the noise of
        rates and times is a share of them."""
        values = [value for seen in self.points.values() for value in (*seen.values, *_known(seen.foretold))]
        positive = all(value > 0 for value in values)
        return lambda value: self.sign * (math.log(value) if positive else value)

    def unscaled(self, score: float) -> float:
        """The value behind a modelled one."""
        values = [value for seen in self.points.values() for value in (*seen.values, *_known(seen.foretold))]
        return math.exp(self.sign * score) if all(value > 0 for value in values) else self.sign * score

    def observed(self, grid: Grid, pending: Sequence[Key], believed: Mapping[Key, float]) -> Observed:
        """The values as a model takes them. Points that are being measured count as what is believed of them
        (`believed`), so that several asks at once differ."""
        scale = self.scale()
        groups = self._modelled({key: [scale(value) for value in seen.values] for key, seen in self.points.items()})
        floor = _floor([fmean(group) for group in groups.values() if group])
        counts = {key: float(len(group)) for key, group in groups.items()}
        for key, group in groups.items():
            foretold = self.points[key].foretold
            if not group and foretold is not None:
                group.append(scale(foretold))
                counts[key] = _PRUNED_COUNT
        groups = {key: group for key, group in groups.items() if group}
        for key in pending:
            groups.setdefault(key, []).append(believed[key])
            counts[key] = counts.get(key, 0.0) + 1
        return _summed(grid, {key: [max(value, floor) for value in group] for key, group in groups.items()}, counts)

    def violations(self, grid: Grid, place: int) -> Observed:
        """One constraint's violations as a model takes them: compressed."""
        groups = {
            key: [_compressed(violations[place]) for violations in seen.violations]
            for key, seen in self.points.items()
            if seen.violations
        }
        groups = self._modelled(groups)
        return _summed(grid, groups, {key: float(len(group)) for key, group in groups.items()})

    def failures(self, grid: Grid) -> Observed | None:
        """1 for each point that failed, -1 for each that did not; None where none did."""
        if not any(seen.failed for seen in self.points.values()):
            return None
        groups = self._modelled({key: [1.0 if self._only_failed(key) else -1.0] for key in self.points})
        return _summed(grid, groups, dict.fromkeys(groups, 1.0))

    def _only_failed(self, key: Key) -> bool:
        seen = self.points[key]
        return not seen.values and seen.foretold is None

    def _modelled(self, groups: dict[Key, list[float]]) -> dict[Key, list[float]]:
        """Of many points the best half that fits, and the latest others."""
        if len(groups) <= MODELLED:
            return groups
        best = sorted(self.measured(), key=lambda key: -self.sign * self.points[key].mean)[: MODELLED // 2]
        kept = {*best, *list(groups)[-(MODELLED // 2) :]}
        return {key: group for key, group in groups.items() if key in kept}


def _known(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)


def _floor(means: Sequence[float]) -> float:
    """What is as bad as anything: how bad the bad ones are does not help to tell the good ones apart."""
    if not means:
        return 0.0
    best, middle = max(means), median(means)
    return max(min(means), best - _DEPTH * (best - middle)) if best > middle else min(means)


def _compressed(violation: float) -> float:
    """Linear near 0 and logarithmic beyond, so that the slope towards the feasible region shows at any distance."""
    return math.copysign(math.log1p(min(abs(violation), _WORST)), violation)


def _summed(grid: Grid, groups: dict[Key, list[float]], counts: dict[Key, float]) -> Observed:
    import numpy as np

    keys = list(groups)
    means = [fmean(groups[key]) for key in keys]
    within = sum((value - mean) ** 2 for key, mean in zip(keys, means, strict=True) for value in groups[key])
    degrees = sum(len(group) - 1 for group in groups.values())
    return Observed(grid.rows(keys), np.array(means), np.array([counts[key] for key in keys]), within, degrees)
