"""What a mix of block sizes costs (fio's `bssplit`): against each fixed size, and against what its own parts predict.

A mix lies between its parts anyway. Whether mixing itself costs something follows from the prediction alone: the time
that its requests would take if each size ran as fast as it does alone. Both are read from the one model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ioassay.analysis.conclusion import CasePart, RatioRow
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.one_factor import LevelFamily, Outcome, pair_outcome
from ioassay.factors import CASE, level_number
from ioassay.narrative.say import Change, Quantity, Response, Say, say
from ioassay.narrative.say import Ratio as Shown
from ioassay.stats import distributions
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN, Contrasts, Ratio, equivalence, ratio_interval
from ioassay.stats.result import Undefined
from ioassay.study.model import Study


@dataclass(frozen=True)
class Mix(CasePart):
    """One mixed case where all other factors are fixed, of all the `cells` of a response.

    `fixed` are the cases with one size. `against`: fixed case -> mixed mean divided by its mean, and what that shows in
    `outcomes`, both empty where nothing is tested; `predicted`: the same against the prediction from the parts
    (bandwidths only; Undefined where a part was not measured alone).
    """

    cell: Cell
    fixed: tuple[Cell, ...]
    against: Mapping[str, Ratio]
    outcomes: Mapping[str, Outcome]
    predicted: Ratio | Undefined

    def statements(self) -> Iterator[Say]:
        """What mixing itself costs, what the mix costs against each size, and the means."""
        response, point, levels = self.cells.response, self.cell.point, self.cells.factors
        where = {name: level for name, level in point.items() if name != CASE and len(levels[name]) > 1}
        known: dict[str, Any] = {"name": Response(response), "mix": str(point[CASE]), "margin": MARGIN}
        if isinstance(ratio := self.predicted, Ratio):
            code = f"{'below' if ratio.ratio < 1 else 'above'}_prediction"
            if (outcome := _outcome(ratio)) != Outcome.DIFFERENCE:
                code = "predicted" if outcome == Outcome.EQUIVALENT else "undecided"
            yield Say(f"conclude.mix_{code}", {**known, **_shown(ratio)}, where)
        if self.against:
            costs = []
            for case, ratio in self.against.items():
                if self.outcomes[case] == Outcome.DIFFERENCE:
                    code = "times" if ratio.ratio >= 2 else "above" if ratio.ratio > 1 else "below"
                    costs.append(say(f"conclude.mix_{code}", **_shown(ratio), case=case))
            for outcome, code in ((Outcome.EQUIVALENT, "like"), (Outcome.UNDECIDED, "unproved")):
                cases = [case for case, shown in self.outcomes.items() if shown == outcome]
                costs += [say(f"conclude.mix_{code}", cases=cases, margin=MARGIN)] if cases else []
            yield Say("conclude.mix_costs", {**known, "costs": costs}, where)
        means = [
            say("conclude.mix_mean", mean=Quantity(response, cell.mean), case=cell.point[CASE])
            for cell in (self.cell, *self.fixed)
        ]
        yield Say("conclude.mix_means", {**known, "means": means}, where)
        if not self.against:
            yield Say("conclude.mix_few", known, where)

    def ratios(self) -> Iterator[RatioRow]:
        point = self.cell.point
        where = {name: level for name, level in point.items() if name != CASE}
        known = dict(self.against)
        if isinstance(self.predicted, Ratio):
            known[str(say("conclude.prediction"))] = self.predicted
        for case, ratio in known.items():
            yield RatioRow(
                response=self.cells.response, factor=CASE, where=where, level=point[CASE], against=case, ratio=ratio
            )


def _shown(ratio: Ratio) -> dict[str, Any]:
    return {"change": Change(ratio.ratio, ratio.interval), "ratio": Shown(ratio.ratio, ratio.interval)}


def parts(found: Cells, families: Sequence[LevelFamily], study: Study) -> list[Mix]:
    """Every case with a `bssplit`, beside the cases with a fixed block size; `families` are those of the cases."""
    measured: list[Mix] = []
    for family in families:
        # Block size in bytes -> share of the requests; empty where it cannot be read (separate sizes by direction).
        settings = [study.params_at(cell.point) for cell in family.cells]
        sizes = [parse_split(str(own.get("bssplit") or own.get("bs", ""))) for own in settings]
        fixed = [index for index, own in enumerate(sizes) if len(own) == 1]
        mixed = [index for index, own in enumerate(sizes) if len(own) > 1 and fixed]
        contrasts, alone = family.contrasts, {next(iter(sizes[other])): other for other in fixed}
        names = {str(family.cells[other].point[CASE]): other for other in fixed}
        for index in mixed:
            own = found, family.cells[index], tuple(family.cells[other] for other in fixed)
            if isinstance(contrasts, Undefined) or contrasts.means.scale != Scale.LOG:
                measured.append(Mix(*own, {}, {}, Undefined("the means have no ratio that could be tested")))
                continue
            against = {name: contrasts.ratio(index, other) for name, other in names.items()}
            outcomes = {name: pair_outcome(contrasts, index, other) for name, other in names.items()}
            predicted = _predicted(family.part.response, contrasts, index, sizes[index], alone)
            measured.append(Mix(*own, against, outcomes, predicted))
    return measured


def parse_split(split: str) -> dict[float, float]:
    """fio's `bssplit`, as in `4k/30:16k/60:64k/10`, as size in bytes -> share; empty for what it cannot read.

    Sizes without a percentage share what the others leave, as fio(1) says.
    """
    shares: dict[float, float | None] = {}
    for part in split.split(":"):
        size, _, percent = part.partition("/")
        number = level_number("bs", size.strip())
        if number is None or not (percent.strip() or "0").replace(".", "", 1).isdecimal():
            return {}
        shares[number] = float(percent) / 100 if percent.strip() else None
    given = sum(share for share in shares.values() if share is not None)
    blank = sum(share is None for share in shares.values())
    return {size: max(1 - given, 0.0) / blank if share is None else share for size, share in shares.items()}


def _predicted(
    response: str, contrasts: Contrasts, mixed: int, shares: Mapping[float, float], alone: Mapping[float, int]
) -> Ratio | Undefined:
    """Mixed bandwidth divided by sum(w s) / sum(w s / b): shares w of requests of size s, each at its own bandwidth b.

    Delta method on the log scale: a part weighs in the prediction's variance by its share of the predicted time.
    """
    if not response.endswith(".bw"):
        return Undefined("only bandwidths are predicted from parts")
    if not set(shares) <= set(alone):
        return Undefined("a size of the mix was not measured alone")
    means, places = contrasts.means, np.array([mixed, *(alone[size] for size in shares)])
    volumes = np.array([share * size for size, share in shares.items()])
    times = volumes / means.means[places[1:]]
    parts = np.concatenate([[1.0], times / times.sum()]) ** 2 * means.squared_errors[places]
    ratio, error = float(means.means[mixed] * times.sum() / volumes.sum()), float(np.sqrt(parts.sum()))
    if error == 0:
        return Undefined("the repetitions are identical")
    df = float(means.df_of_sums(parts[None, :], places[None, :])[0])
    interval = ratio_interval(float(np.log(ratio)), error, df, 1 - contrasts.risk)
    p = min(1.0, float(2 * distributions.t_sf(abs(np.log(ratio)) / error, df)) * contrasts.share)
    return Ratio(ratio, interval, error, df, p)


def _outcome(ratio: Ratio) -> Outcome:
    """What a single ratio shows: that it is not 1, that it is within the margin of 1, or neither."""
    if equivalence(ratio, MARGIN, 1 - ratio.interval.confidence).equivalent:
        return Outcome.EQUIVALENT
    return Outcome.UNDECIDED if ratio.interval.low <= 1 <= ratio.interval.high else Outcome.DIFFERENCE
