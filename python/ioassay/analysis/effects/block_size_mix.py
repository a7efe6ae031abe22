"""What a mix of block sizes costs: against each fixed size, and against what its own parts predict.

A mix lies between its parts anyway. Whether mixing itself costs something is only told by the prediction: the time
that its requests would take if each size ran as fast as it does alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.factors import CASE, level_number
from ioassay.stats import distributions
from ioassay.stats.ratio_of_means import Ratio, ratio_interval, ratio_of_means
from ioassay.stats.result import Floats, Undefined, mean_of, sum_of_squares
from ioassay.study.model import Study


@dataclass(frozen=True)
class Mix:
    """One mixed case where all other factors are fixed.

    `fixed` are the cases with one size. `against`: fixed case -> mixed mean divided by its mean; `predicted`: the same
    against the prediction from the parts (bandwidths only; Undefined where a part was not measured alone).
    """

    cell: Cell
    fixed: tuple[Cell, ...]
    against: Mapping[str, Ratio | Undefined]
    predicted: Ratio | Undefined


def mixes(found: Cells, study: Study, confidence: float) -> list[Mix]:
    """Every case with a `bssplit`, beside the cases with a fixed block size."""
    measured = []
    for part in found.slices(CASE) if CASE in found.factors else []:
        sizes = {cell.label: _sizes(study, cell) for cell in part.cells}
        fixed = [cell for cell in part.cells if len(sizes[cell.label]) == 1]
        for cell in part.cells:
            if len(sizes[cell.label]) > 1 and fixed:
                measured.append(_mix(found.response, cell, fixed, sizes, confidence))
    return measured


def _mix(
    response: str, cell: Cell, fixed: list[Cell], sizes: Mapping[str, Mapping[float, float]], confidence: float
) -> Mix:
    against = {str(one.point[CASE]): ratio_of_means(cell.values, one.values, confidence) for one in fixed}
    alone = {next(iter(sizes[one.label])): one.values for one in fixed}
    return Mix(cell, tuple(fixed), against, _predicted(response, cell.values, sizes[cell.label], alone, confidence))


def _sizes(study: Study, cell: Cell) -> dict[float, float]:
    """Block size in bytes -> share of the requests; empty where it cannot be read (separate sizes by direction)."""
    settings = study.params_at(cell.point)
    split = settings.get("bssplit")
    if split is None:
        size = level_number("bs", settings.get("bs"))
        return {} if size is None else {size: 1.0}
    return parse_split(str(split))


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
    response: str, mixed: Floats, shares: Mapping[float, float], alone: Mapping[float, Floats], confidence: float
) -> Ratio | Undefined:
    """Mixed bandwidth divided by sum(w s) / sum(w s / b): shares w of requests of size s, each at its own bandwidth b.

    Delta method on the log scale: a part weighs in the prediction's variance by its share of the predicted time.
    """
    if not response.endswith(".bw"):
        return Undefined("only bandwidths are predicted from parts")
    if not set(shares) <= set(alone):
        return Undefined("a size of the mix was not measured alone")
    samples = [mixed, *(alone[size] for size in shares)]
    means = np.array([mean_of(sample) for sample in samples])
    if min(sample.size for sample in samples) < 2 or means.min() <= 0:
        return Undefined("a case has one repetition only")
    volumes = np.array([share * size for size, share in shares.items()])
    times = volumes / means[1:]
    weights = np.concatenate([[1.0], times / times.sum()])
    relative = np.array([sum_of_squares(s) / (s.size - 1) / s.size for s in samples]) / means**2
    variances = weights**2 * relative
    ratio, variance = float(means[0] * times.sum() / volumes.sum()), float(variances.sum())
    if variance == 0:
        return Undefined("the repetitions are identical")
    df = float(variance**2 / np.sum(variances**2 / np.array([sample.size - 1 for sample in samples])))
    se = float(np.sqrt(variance))
    interval = ratio_interval(float(np.log(ratio)), se, df, confidence)

    return Ratio(ratio, interval, se, df, float(2 * distributions.t_sf(abs(np.log(ratio)) / se, df)))
