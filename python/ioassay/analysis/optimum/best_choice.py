"""The level of a factor that a later study takes: the best one, or the smallest of those that are as good.

Where the factor varies in several places, those count whose other levels are those of the later study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
            alike = [one for one in peaks if _is_place_of(one, settings or {})]
            first, *others = [_as_good(one) for one in alike or peaks]
            # The smallest level that is as good in every place; without such a one that of the first place.
            shared = [level for level in first if all(_lists(levels, factor, level) for levels in others)]
            return BestChoice((shared or first)[0], tuple(shared or first), name)
    return None


def _is_place_of(one: Peak, settings: Mapping[str, object]) -> bool:
    """Whether a place is that of the later study, as far as its settings say anything of the factors."""
    said = ((name, level, settings.get(name)) for name, level in one.part.where().items())
    return all(setting is None or _lists([setting], name, level) for name, level, setting in said)


def _lists(levels: Sequence[object], factor: str, level: Scalar) -> bool:
    return any(isinstance(one, str | int | float) and same_level(factor, level, one) for one in levels)


def _as_good(one: Peak) -> list[Scalar]:
    """The levels that may be taken, in their order: where none is certainly better, all that may be best."""
    if isinstance(one.levels, Undefined):
        indices: Sequence[int] = (one.best,)
    elif one.outcome == Outcome.UNDECIDED:
        indices = one.candidates
    else:
        indices = sorted({*one.levels.as_good, one.best})
    return [one.cells[index].point[one.factor] for index in indices]
