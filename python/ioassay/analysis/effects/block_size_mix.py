"""What a mix of block sizes costs: against each fixed size, and against what its own parts predict.

A mix lies between its parts anyway. Whether mixing itself costs something is only told by the prediction: the time
that its requests would take if each size ran as fast as it does alone. Both are read from the one model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.effects.level_contrasts import LevelFamily
from ioassay.analysis.effects.one_factor import Outcome, pair_outcome
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.factors import CASE, level_number
from ioassay.stats import distributions
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import Contrasts, Ratio, ratio_interval
from ioassay.stats.result import Undefined
from ioassay.study.model import Study


@dataclass(frozen=True)
class Mix:
    """One mixed case where all other factors are fixed, of all the `cells` of a response.

    `fixed` are the cases with one size. `against`: fixed case -> mixed mean divided by its mean, and what that shows in
    `outcomes`, both empty where nothing is tested; `predicted`: the same against the prediction from the parts
    (bandwidths only; Undefined where a part was not measured alone).
    """

    cells: Cells
    cell: Cell
    fixed: tuple[Cell, ...]
    against: Mapping[str, Ratio]
    outcomes: Mapping[str, Outcome]
    predicted: Ratio | Undefined


def mixes(found: Cells, families: Sequence[LevelFamily], study: Study) -> list[Mix]:
    """Every case with a `bssplit`, beside the cases with a fixed block size; `families` are those of the cases."""
    measured = []
    for family in families:
        sizes = [_sizes(study, cell) for cell in family.cells]
        fixed = [index for index, own in enumerate(sizes) if len(own) == 1]
        mixed = [index for index, own in enumerate(sizes) if len(own) > 1 and fixed]
        measured += [_mix(found, family, index, fixed, sizes) for index in mixed]
    return measured


def _mix(
    found: Cells, family: LevelFamily, index: int, fixed: Sequence[int], sizes: Sequence[Mapping[float, float]]
) -> Mix:
    contrasts, names = family.contrasts, {str(family.cells[other].point[CASE]): other for other in fixed}
    cells = found, family.cells[index], tuple(family.cells[other] for other in fixed)
    if isinstance(contrasts, Undefined) or contrasts.means.scale != Scale.LOG:
        return Mix(*cells, {}, {}, Undefined("the means have no ratio that could be tested"))
    alone = {next(iter(sizes[other])): other for other in fixed}
    return Mix(
        *cells,
        against={name: contrasts.ratio(index, other) for name, other in names.items()},
        outcomes={name: pair_outcome(contrasts, index, other) for name, other in names.items()},
        predicted=_predicted(family.part.response, contrasts, index, sizes[index], alone),
    )


def _sizes(study: Study, cell: Cell) -> dict[float, float]:
    """Block size in bytes -> share of the requests; empty where it cannot be read (separate sizes by direction)."""
    settings = study.params_at(cell.point)
    if (split := settings.get("bssplit")) is not None:
        return parse_split(str(split))
    size = level_number("bs", settings.get("bs"))
    return {} if size is None else {size: 1.0}


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
