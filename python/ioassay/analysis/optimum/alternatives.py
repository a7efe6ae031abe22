"""Which case is best, where, and is the difference real? Each response of a study that is about a choice of cases.

Places are the combinations of the other factors' levels. Cases with the same settings of the target differ in nothing
but how they load it, and are also compared among themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ioassay.analysis.effects.level_contrasts import lower_is_better
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.measurements.memo import memoized
from ioassay.analysis.optimum import optimum
from ioassay.factors import CASE
from ioassay.records.record import Scalar
from ioassay.stats.paired_comparison import Contest, Duel, contest
from ioassay.stats.result import Floats, mean_of, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study


class Outcome(StrEnum):
    """Whether the data identify a best option."""

    BEST = "best"
    """One option is ahead of all others beyond noise."""
    SHARED = "shared"
    """Several options are ahead of the rest."""
    NO_DIFFERENCE = "no difference"
    UNREPEATED = "unrepeated"


@dataclass(frozen=True)
class Standing:
    """The options in one place, best first; `where` is empty for the average over all places.

    `duels[option]` is the best against that option; `means` has none for the average.
    """

    where: Mapping[str, Scalar]
    options: tuple[Scalar, ...]
    means: Mapping[Scalar, float]
    duels: Mapping[Scalar, Duel]
    risk: float

    @property
    def best(self) -> Scalar:
        """The option with the best mean."""
        return self.options[0]

    @property
    def near(self) -> list[Scalar]:
        """Options that do not differ from the best beyond noise."""
        return [option for option in self.options[1:] if not self.beats(option)]

    @property
    def beaten(self) -> list[Scalar]:
        """Options that are worse than the best beyond noise."""
        return [option for option in self.options[1:] if self.beats(option)]

    @property
    def outcome(self) -> Outcome:
        """Whether the data identify the best option."""
        if self.beaten:
            return Outcome.SHARED if self.near else Outcome.BEST
        return Outcome.UNREPEATED if self.widest.interval is None else Outcome.NO_DIFFERENCE

    @property
    def widest(self) -> Duel:
        """The largest difference to the best."""
        return max(self.duels.values(), key=lambda duel: duel.ratio)

    def beats(self, option: Scalar) -> bool:
        """Whether the best is ahead of `option` beyond noise."""
        p = self.duels[option].p
        return p is not None and p < self.risk

    def statistics(self) -> dict[str, Any]:
        """The numbers under stable names."""
        return {
            "where": dict(self.where),
            "best": self.best,
            "told": self.outcome == Outcome.BEST,
            "not_told_apart": self.near,
            "worse": self.beaten,
            "means": {str(option): mean for option, mean in self.means.items()},
            "best_against": {
                str(option): {"ratio": duel.ratio, "interval": plain(duel.interval), "p": duel.p}
                for option, duel in self.duels.items()
            },
        }


@dataclass(frozen=True)
class Choice:
    """One response. `alike`: the same of the options that load the target the same way, where not all do."""

    cells: Cells
    average: Standing
    places: tuple[Standing, ...]
    repetitions: int
    """The fewest of a condition."""
    alike: Choice | None = None

    @property
    def response(self) -> str:
        """What was measured."""
        return self.cells.response

    @property
    def lower(self) -> bool:
        """True if small values are best."""
        return lower_is_better(self.response)

    @property
    def pairs(self) -> int:
        """How many pairs of options are compared."""
        count = len(self.average.options)
        return count * (count - 1) // 2

    def statistics(self) -> dict[str, Any]:
        """The numbers under stable names."""
        return {
            "better": "lower" if self.lower else "higher",
            "repetitions": self.repetitions,
            "pairs": self.pairs,
            "average": self.average.statistics(),
            "places": [standing.statistics() for standing in self.places],
            "same_target": self.alike.statistics() if self.alike else None,
        }


def analyse(records: Dataset, study: Study) -> list[Choice]:
    """An answer for each response that has a best; none for studies of something else."""
    return choices(records, study) if study.analysis.lead == "choice" else []


def choices(records: Dataset, study: Study) -> list[Choice]:
    """One for each response of the study that has a better direction and was measured of two cases or more."""
    found = (choice(records, study, response) for response in optimum.judged(records, study))
    return [one for one in found if one is not None]


@memoized
def choice(records: Dataset, study: Study, response: str) -> Choice | None:
    """None where fewer than two cases have values, or a mean is not above 0."""
    found = cells(records, study, response)
    options = found.factors.get(CASE, ())
    confidence = study.analysis.confidence
    whole = _among(found, options, confidence)
    if whole is None:
        return None
    alike = _largest_alike(study, options)
    if len(alike) in (1, len(options)):
        return whole
    return replace(whole, alike=_among(found, alike, confidence))


def _largest_alike(study: Study, options: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The options that share their settings of the target with most others."""
    groups: dict[str, list[Scalar]] = {}
    for case in study.case:
        if case["name"] in options:
            own = {key: value for key, value in case.items() if key.startswith("target.")}
            groups.setdefault(json.dumps(own, sort_keys=True, default=str), []).append(case["name"])
    return tuple(sorted(groups.values(), key=len)[-1]) if groups else ()


def _among(found: Cells, options: Sequence[Scalar], confidence: float) -> Choice | None:
    places = [(dict(part.where()), values) for part in found.slices(CASE) if len(values := _values(part, options)) > 1]
    everything = [group for _, values in places for group in values.values()]
    if len(options) < 2 or not everything or min(mean_of(group) for group in everything) <= 0:
        return None
    none = _nothing()
    judged = contest([[values.get(option, none) for option in options] for _, values in places], confidence)
    lower, risk = lower_is_better(found.response), 1 - confidence
    standings = tuple(
        _standing(where, options, duels, values, lower=lower, risk=risk)
        for (where, values), duels in zip(places, judged.places, strict=True)
    )
    average = _average(judged, options, lower=lower, risk=risk)
    if average is None:
        return None
    return Choice(found, average, standings, min(group.size for group in everything))


def _values(part: Cells, options: Sequence[Scalar]) -> dict[Scalar, Floats]:
    return {cell.point[CASE]: cell.values for cell in part.cells if cell.point[CASE] in options}


def _nothing() -> Floats:
    import numpy as np

    return np.array([], dtype=np.float64)


def _average(judged: Contest, options: Sequence[Scalar], *, lower: bool, risk: float) -> Standing | None:
    if not judged.average:
        return None
    return _standing({}, options, judged.average, {}, lower=lower, risk=risk)


def _standing(
    where: Mapping[str, Scalar],
    options: Sequence[Scalar],
    duels: Sequence[Duel],
    values: Mapping[Scalar, Floats],
    *,
    lower: bool,
    risk: float,
) -> Standing:
    """Ranked by how many others an option is ahead of; of equals the first as the study lists them."""
    present = sorted({index for duel in duels for index in (duel.high, duel.low)})
    ahead = {index: sum((duel.low if lower else duel.high) == index for duel in duels) for index in present}
    ranked = sorted(present, key=lambda index: -ahead[index])
    best = ranked[0]
    against = {options[duel.low if duel.high == best else duel.high]: duel for duel in duels if best in _both(duel)}
    means = {option: mean_of(group) for option, group in values.items()}
    return Standing(where, tuple(options[index] for index in ranked), means, against, risk)


def _both(duel: Duel) -> tuple[int, int]:
    return duel.high, duel.low
