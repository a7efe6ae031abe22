"""Up to which offered load do requests not wait, and what does the storage serve at most?

For studies that offer requests at rates (an open loop). A level *waits* where the 99th percentile of its latency
exceeds that of the calmest level by half or more. Both claims, that it does and that it does not, are read from one
family of contrasts of the percentiles; between them the data decide nothing. Where fewer requests are served than are
offered, the percentile is that of the requests that were let in, and a lower bound: no such level is calm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ioassay.analysis.measurements.cells import cells, interval
from ioassay.analysis.one_factor import LevelFamily, level_families
from ioassay.factors import LOADS, offers
from ioassay.metrics import DIRECTIONS
from ioassay.records.record import Scalar
from ioassay.stats.contrasts import Contrasts, best
from ioassay.stats.result import Interval, Undefined, as_floats
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

MARGIN = 0.5
"""By what share a percentile exceeds the calmest one where requests wait."""
PERCENTILE = "p99"


@dataclass(frozen=True)
class LoadLevel:
    """One offered rate of all jobs, what was served of it, and the percentile in ns with its interval."""

    offered: float
    served: float
    served_interval: Interval | Undefined
    latency: float
    latency_interval: Interval | Undefined

    saturated: bool
    """Fewer requests were served than were offered: the percentile is a lower bound."""


@dataclass(frozen=True)
class Saturation:
    """Levels by rate, in one place of the other factors; indices of levels, None where no level is one.

    `calm`: the last level up to which requests certainly do not wait; `calm_mean`: by the means alone. `waits`: the
    first from which they certainly do. `lowest` has the smallest percentile of those that serve all, `most` serves
    most. `tested`: there are repetitions that tell how far chance goes.
    """

    study: str
    rate: str
    percentile: str
    where: Mapping[str, Scalar]
    levels: tuple[LoadLevel, ...]
    tested: bool
    lowest: int | None
    calm: int | None
    calm_mean: int | None
    waits: int | None
    most: int

    @property
    def saturates(self) -> int | None:
        """The first level of which fewer requests are served than are offered."""
        return next((place for place, level in enumerate(self.levels) if level.saturated), None)


def analyse(records: Dataset, study: Study) -> list[Saturation]:
    """One for each place of a study that offers rates; none of any other."""
    factor = next((name for name in LOADS if offers(name) == "iops" and len(study.levels.get(name, ())) > 2), None)
    direction = next((one for one in DIRECTIONS if cells(records, study, f"{one}.iops").cells), None)
    if factor is None or direction is None or not records.is_measured(study):
        return []
    found, confidence, places = cells(records, study, f"{direction}.lat.{PERCENTILE}"), study.analysis.confidence, []
    for family in level_families(found, factor, confidence) if factor in found.varying() else ():
        levels = []
        for cell, load in ((cell, cell.load) for cell in family.cells if cell.load):
            own = interval(load.metric, load.rate, confidence), cell.mean, interval(found.response, cell, confidence)
            levels.append(LoadLevel(load.offered, load.served, *own, load.saturated))
        if len(levels) == len(family.cells) > 2:
            places.append(_place(study, direction, family, tuple(levels)))
    return places


def _place(study: Study, direction: str, family: LevelFamily, levels: tuple[LoadLevel, ...]) -> Saturation:
    contrasts = family.contrasts
    whole = [place for place, level in enumerate(levels) if not level.saturated]
    latencies = as_floats([level.latency for level in levels])
    lowest = whole[best(latencies[whole], lower=True)] if whole else None
    known = replace(contrasts, margin=MARGIN) if isinstance(contrasts, Contrasts) else None
    near = beyond = np.zeros(len(levels), dtype=bool)
    if known and lowest is not None:
        near, beyond = known.near[lowest], known.differences[:, lowest] - known.reach[:, lowest] > known.bound
    free = [place in whole and latencies[place] <= (1 + MARGIN) * latencies[lowest] for place in range(len(levels))]
    # The levels from the first that does not wait by its mean to the next that does: a calmer one may lie above.
    first = free.index(True) if True in free else len(free)
    calm_levels = range(first, next((place for place in range(first, len(free)) if not free[place]), len(free)))
    return Saturation(
        study=study.name,
        rate=f"{direction}.iops",
        percentile=f"{direction}.lat.{PERCENTILE}",
        where=family.part.where(),
        levels=levels,
        tested=known is not None,
        lowest=lowest,
        calm=max((place for place in calm_levels if near[place]), default=None),
        calm_mean=max(calm_levels, default=None),
        waits=next((place for place in range(lowest or 0, len(levels)) if beyond[place:].all()), None),
        most=best([level.served for level in levels]),
    )
