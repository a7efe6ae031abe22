"""Which case is best, where, and is the difference real? Each response of a study that is about a choice of cases.

Places are the combinations of the other factors' levels. In each, and on average over all, the cases have a family of
contrasts from the one model of the response. Cases with the same settings of the target differ in nothing but how they
load it, and are also compared among themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ioassay.analysis import optimum, path_of
from ioassay.analysis.measurements import memoized
from ioassay.analysis.measurements.cells import Cells, cells
from ioassay.analysis.one_factor import lower_is_better
from ioassay.factors import CASE
from ioassay.metrics import LowerBound, lower_bounds
from ioassay.records.record import Scalar
from ioassay.stats.condition_means import ConditionMeans, average
from ioassay.stats.contrasts import Contrasts, Pair, best, best_level, repetitions_needed
from ioassay.stats.result import Undefined, plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LATENCY = "read.clat.mean"
"""What is published of access paths, beside requests a second."""


class Outcome(StrEnum):
    """Whether the data identify a best option."""

    BEST = "best"
    """One option is certainly better than all others."""
    SHARED = "shared"
    """Some options are certainly worse; which of the others is best is undecided."""
    EQUIVALENT = "equivalent"
    """All options are certainly within the margin of each other."""
    UNDECIDED = "undecided"
    UNREPEATED = "unrepeated"


@dataclass(frozen=True)
class Standing:
    """The options in one place, best first; `where` is empty for the average over all places.

    `duels[option]` is the best against that option: the larger mean divided by the smaller, at least 1; `means` has
    none for the average. `candidates` may be best, `as_good` are certainly within the margin of it. `needed`: the
    repetitions that would show a difference of the margin.
    """

    where: Mapping[str, Scalar]
    options: tuple[Scalar, ...]
    means: Mapping[Scalar, float]
    duels: Mapping[Scalar, Pair | float]
    candidates: tuple[Scalar, ...]
    as_good: tuple[Scalar, ...]
    needed: int | None
    undefined: str = ""
    """Why nothing is compared, where nothing is."""

    @property
    def best(self) -> Scalar:
        return self.options[0]

    @property
    def near(self) -> list[Scalar]:
        """Options that may be better than the best."""
        return [option for option in self.options[1:] if option in self.candidates]

    @property
    def beaten(self) -> list[Scalar]:
        """Options that are certainly worse than some other."""
        return [option for option in self.options[1:] if option not in self.candidates]

    @property
    def outcome(self) -> Outcome:
        if not all(isinstance(duel, Pair) for duel in self.duels.values()):
            return Outcome.UNREPEATED
        if len(self.as_good) == len(self.options):
            return Outcome.EQUIVALENT
        if self.beaten:
            return Outcome.SHARED if self.near else Outcome.BEST
        return Outcome.UNDECIDED

    def statistics(self) -> dict[str, Any]:
        return {
            "where": dict(self.where),
            "outcome": self.outcome,
            "best": self.best,
            "told": self.outcome == Outcome.BEST,
            "not_told_apart": self.near,
            "as_good": list(self.as_good),
            "worse": self.beaten,
            "means": {str(option): mean for option, mean in self.means.items()},
            "best_against": {
                str(option): {"ratio": duel.estimate, "interval": plain(duel.interval), "p": duel.p}
                if isinstance(duel := self.duels[option], Pair)
                else {"ratio": duel, "interval": None, "p": None}
                for option in self.options[1:]
            },
            "repetitions_needed": self.needed,
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
        return self.cells.response

    @property
    def lower(self) -> bool:
        return lower_is_better(self.response)

    def statistics(self) -> dict[str, Any]:
        return {
            "better": "lower" if self.lower else "higher",
            "repetitions": self.repetitions,
            "pairs": math.comb(len(self.average.options), 2),
            "average": self.average.statistics(),
            "places": [standing.statistics() for standing in self.places],
            "same_target": self.alike.statistics() if self.alike else None,
        }


def analyse(records: Dataset, study: Study) -> list[Choice]:
    """One for each response that has a best and was measured of two cases or more; none for studies of other things."""
    responses = optimum.judged(records, study) if study.analysis.lead == "choice" else []
    return [found for response in responses if (found := choice(records, study, response)) is not None]


@dataclass(frozen=True)
class StudyChoice:
    """The choice of one study. `latency`: mean completion latency of reads, of the same conditions.

    `premise`: the code of what the cases have in common, where they are paths to a drive.
    """

    study: str
    choice: Choice
    premise: str | None = None
    latency: Cells | None = None


def together(records: Dataset) -> list[StudyChoice]:
    """The first response of each study of a choice that measured two cases."""
    return [
        StudyChoice(study.name, each[0], path.premise(records, study) if path else None, cells(records, study, LATENCY))
        for study in records.studies
        if (each := analyse(records, study))
        for path in [path_of(study)]
    ]


@memoized
def choice(records: Dataset, study: Study, response: str) -> Choice | None:
    """None where fewer than two cases have values, or a mean is not above 0."""
    found, confidence = cells(records, study, response), study.analysis.confidence
    options = found.factors.get(CASE, ())
    whole = _among(found, options, confidence)
    if whole is None:
        return None
    groups: dict[str, list[Scalar]] = {}  # by their settings of the target
    for case in study.case:
        if case["name"] in options:
            own = {key: value for key, value in case.items() if key.startswith("target.")}
            groups.setdefault(json.dumps(own, sort_keys=True, default=str), []).append(case["name"])
    alike = sorted(groups.values(), key=len)[-1] if groups else []
    if len(alike) in (1, len(options)):
        return whole
    return replace(whole, alike=_among(found, alike, confidence))


def _among(found: Cells, options: Sequence[Scalar], confidence: float) -> Choice | None:
    """Of some options; the average is of those that were measured in all places."""
    wanted = replace(found, cells=tuple(cell for cell in found.cells if cell.point[CASE] in options))
    places = [part for part in wanted.slices(CASE) if len(part.cells) > 1]
    compared = replace(wanted, cells=tuple(cell for part in places for cell in part.cells))
    means = [cell.mean for cell in compared.cells]
    if len(options) < 2 or not means or min(means) <= 0:
        return None
    rows = [{compared.cells[index].point[CASE]: index for index in row.values()} for row in compared.grid(CASE)]
    everywhere = [option for option in options if all(option in row for row in rows)]
    if len(everywhere) < 2:
        return None
    model, standings, lower = compared.fit(), [], lower_is_better(found.response)
    for part, row in zip(places, rows, strict=True):
        own = model if isinstance(model, Undefined) else model.part(list(row.values()))
        known = {option: means[number] for option, number in row.items()}
        standings.append(_standing(part.where(), known, own, lower, confidence, len(places)))
    table = [[row[option] for row in rows] for option in everywhere]
    whole = model if isinstance(model, Undefined) else average(model, table)
    each = [[means[number] for number in numbers] for numbers in table]
    centres = [(LowerBound if lower_bounds(own) else float)(np.exp(np.mean(np.log(own)))) for own in each]
    overall = _standing({}, dict(zip(everywhere, centres, strict=True)), whole, lower, confidence, 1)
    return Choice(found, replace(overall, means={}), tuple(standings), min(values.size for values in compared.groups))


def _standing(
    where: Mapping[str, Scalar],
    means: Mapping[Scalar, float],
    model: ConditionMeans | Undefined,
    lower: bool,
    confidence: float,
    share: int,
) -> Standing:
    """Ranked by mean; of equals the first as the study lists them."""
    options, bounded = list(means), lower_bounds(means.values())
    first = options[best([*means.values()], lower=lower, bounded=bounded)]
    ranked = tuple(sorted(options, key=lambda one: (one != first, means[one] if lower else -means[one])))
    others = ranked[1:]
    if isinstance(model, Undefined):
        ratios = {option: max(means[first] / means[option], means[option] / means[first]) for option in others}
        return Standing(where, ranked, means, ratios, ranked, (), None, model.reason)
    contrasts = Contrasts(model, confidence, share=share, bounded=bounded)
    found, at = best_level(contrasts, lower=lower), options.index
    duels = {
        option: contrasts.pair(at(option), at(first)) if lower else contrasts.pair(at(first), at(option))
        for option in others
    }
    candidates, as_good = (
        tuple(option for option in ranked if at(option) in places) for places in (found.candidates, found.as_good)
    )
    needed = None if model.exact else repetitions_needed(contrasts)
    return Standing(where, ranked, means, duels, candidates, as_good, needed)
