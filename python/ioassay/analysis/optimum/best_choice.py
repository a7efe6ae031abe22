"""The level of a factor that a later study takes: the best one, or the smallest of those that are as good.

Where the factor varies in several places, those count whose other levels are those of the later study.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ioassay.analysis.optimum import optimum
from ioassay.analysis.optimum.optimum import Outcome, Peak
from ioassay.factors import same_level
from ioassay.records.record import Scalar
from ioassay.stats.result import Undefined
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


@dataclass(frozen=True)
class BestChoice:
    """The level to take, and all that are as good, itself included; more than one where the best is not certain."""

    level: Scalar
    as_good: tuple[Scalar, ...]
    response: str

    @property
    def certain(self) -> bool:
        """True if no other level is as good."""
        return len(self.as_good) == 1


def choose(
    records: Dataset, study: Study, factor: str, response: str = "", settings: Mapping[str, object] | None = None
) -> BestChoice | None:
    """The best level of a study's factor for a response, by default its first; None where nothing was measured.

    `settings` are the parameters of the study that takes it.
    """
    for name in [response] if response else optimum.judged(records, study):
        if peaks := optimum.measured(records, study, name).get(factor):
            return _of_places(_alike(peaks, settings or {}), name)
    return None


def _alike(peaks: list[Peak], settings: Mapping[str, object]) -> list[Peak]:
    """The places whose levels are those of the settings, where these say any; else all."""
    found = [
        one for one in peaks if all(_same(name, level, settings.get(name)) for name, level in one.part.where().items())
    ]
    return found or peaks


def _same(name: str, level: Scalar, setting: object) -> bool:
    """Whether a place is that of the later study, as far as that says anything of the factor."""
    return setting is None or (isinstance(setting, str | int | float) and same_level(name, level, setting))


def _of_places(peaks: list[Peak], response: str) -> BestChoice:
    """The smallest level that is as good in every place; without such a one that of the first place."""
    first, *others = [_as_good(one) for one in peaks]
    factor = peaks[0].factor
    shared = tuple(
        level for level in first if all(any(same_level(factor, level, one) for one in levels) for levels in others)
    )
    good = shared or first
    return BestChoice(good[0], good, response)


def _as_good(one: Peak) -> tuple[Scalar, ...]:
    """The levels that may be taken, in their order: where none is certainly better, all that may be best."""
    if isinstance(one.levels, Undefined):
        indices: tuple[int, ...] = (one.best,)
    elif one.outcome == Outcome.UNDECIDED:
        indices = tuple(one.candidates)
    else:
        indices = tuple(sorted({*one.levels.as_good, one.best}))
    return tuple(one.cells[index].point[one.factor] for index in indices)
