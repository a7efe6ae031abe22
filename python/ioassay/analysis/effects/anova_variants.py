"""The three analyses of variance between conditions that are usually done, each with what it counts.

Over all log samples and over each repetition's log samples the count of observations is false (naive); over the
repetitions it is right. The difference is shown, not hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell
from ioassay.stats.anova import OneWay, Welch, one_way, welch
from ioassay.stats.result import Floats, Undefined


@dataclass(frozen=True)
class AnovaVariants:
    """Over all log samples, over those of each repetition (number -> analysis), and over repetitions, twice."""

    cells: Cells
    all_samples: OneWay
    per_repetition: Mapping[int, OneWay]
    repetitions: OneWay | Undefined
    repetitions_welch: Welch | Undefined
    confidence: float

    def differs(self, analysis: OneWay) -> bool:
        """Return True if conditions differ by one of the analyses."""
        return analysis.p < 1 - self.confidence


def variants(found: Cells, logged: Mapping[str, Samples], confidence: float) -> AnovaVariants | None:
    """All three where logs exist, None otherwise: the analysis over repetitions alone is `one_factor`'s."""
    runs = [of_cell(cell, logged) for cell in found.cells]
    present = [np.concatenate(group) for group in runs if group]
    everything = one_way(present) if len(present) > 1 else Undefined("fewer than two conditions have log samples")
    if isinstance(everything, Undefined):
        return None
    each = _each_repetition(found, logged)
    return AnovaVariants(found, everything, each, one_way(found.groups), welch(found.groups), confidence)


def _each_repetition(found: Cells, logged: Mapping[str, Samples]) -> dict[int, OneWay]:
    groups: dict[int, list[Floats]] = {}
    for cell in found.cells:
        for repetition, trial in zip(cell.repetition, cell.trials, strict=True):
            if trial in logged:
                groups.setdefault(int(repetition), []).append(logged[trial].value)
    done = {number: one_way(parts) for number, parts in sorted(groups.items())}
    return {number: one for number, one in done.items() if isinstance(one, OneWay)}
