"""The analysis of variance that is usually done over log samples, labelled as naive, and what it is worth corrected.

Here as the question whether repetitions of one condition differ. The same between conditions: `anova_variants.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell
from ioassay.stats.anova import OneWay, one_way
from ioassay.stats.dependence import Components, Corrected, Dependence, components, corrected, dependence
from ioassay.stats.result import Undefined

LONG_ENOUGH = 50
"""Samples a run from which on its own mean, which is taken out, hides little of the dependence."""


@dataclass(frozen=True)
class Among:
    """One condition: do its repetitions differ? `naive` as usually done, `corrected` for the samples' dependence.

    `between_share`: share of the samples' variance that lies between repetitions (intraclass correlation), with
    what dependence alone would give taken out; 0 where nothing is left.
    """

    cell: Cell
    naive: OneWay
    dependence: Dependence | Undefined
    corrected: Corrected | Undefined
    components: Components | Undefined
    between_share: float | None


@dataclass(frozen=True)
class LogSampleComparison:
    """The repetitions of every condition that has logs of two or more."""

    cells: Cells
    conditions: tuple[Among, ...]
    confidence: float

    @property
    def naive_different(self) -> int:
        """Conditions whose repetitions seem to differ sample by sample."""
        return sum(among.naive.p < 1 - self.confidence for among in self.conditions)

    @property
    def corrected_different(self) -> int:
        """Conditions whose repetitions differ with the samples' dependence corrected."""
        tested = [among.corrected for among in self.conditions if isinstance(among.corrected, Corrected)]
        return sum(corrected.p < 1 - self.confidence for corrected in tested)

    @property
    def shortest(self) -> int:
        """Samples of the shortest run."""
        return min(among.naive.df_within // (among.naive.df_between + 1) + 1 for among in self.conditions)


def among_repetitions(found: Cells, logged: Mapping[str, Samples], confidence: float) -> LogSampleComparison | None:
    """All conditions; None where no condition has logs of two repetitions."""
    judged = [among for cell in found.cells if (among := _among(cell, of_cell(cell, logged), confidence)) is not None]
    return LogSampleComparison(found, tuple(judged), confidence) if judged else None


def _among(cell: Cell, runs: Sequence[Any], confidence: float) -> Among | None:
    naive = one_way(runs)
    if isinstance(naive, Undefined):
        return None
    found = dependence(runs)
    parts = components(runs, confidence)
    fixed = found if isinstance(found, Undefined) else corrected(naive, found)
    share = None
    if isinstance(parts, Components) and isinstance(found, Dependence):
        between = max(naive.ms_between - found.time * naive.ms_within, 0.0) / parts.mean_size
        share = between / (between + naive.ms_within)
    return Among(cell, naive, found, fixed, parts, share)
