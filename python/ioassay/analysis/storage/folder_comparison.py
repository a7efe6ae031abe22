"""Which of two folders is faster, at what and by which factor? Of passes, test by test, with intervals.

For studies with a factor `target.path`. All others are compared with the first folder; a factor over several sizes is
the geometric mean of theirs. Only trials that count are compared, so with twins those without the witness. Each test in
each mode has one model of its rates, and all comparisons share the risk, since they are counted together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.effects.average_change import AverageChange, average_change
from ioassay.analysis.measurements.cells import Cell, Cells
from ioassay.analysis.measurements.passes import RATE, Pass
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats.result import Undefined
from ioassay.study.model import Study

PATH = "target.path"
_SIZE = "size"


@dataclass(frozen=True)
class Factor:
    """How many times faster than the first folder another one is, at one test in one mode."""

    folder: str
    point: Mapping[str, Scalar]
    direct: bool | None
    test: str
    change: AverageChange | Undefined


@dataclass(frozen=True)
class Folders:
    """The factors of all `others` against the `first` folder."""

    first: str
    others: Sequence[str]
    factors: Sequence[Factor]
    confidence: float


def compare(study: Study, counted: Sequence[Pass]) -> Folders | None:
    """None where fewer than two folders have passes."""
    levels = study.levels.get(PATH, ())
    present = [level for level in levels if any(one.point[PATH] == level for one in counted)]
    if len(present) < 2:
        return None
    first, *others = present
    groups: dict[tuple[object, ...], list[Pass]] = {}
    for one in counted:
        groups.setdefault((*_mode(one), one.test), []).append(one)
    measured = [(own[0], _cells(study, present, own)) for own in groups.values()]
    pairs = [
        (other, some, rates) for other in others for some, rates in measured if {first, other} <= {*rates.factors[PATH]}
    ]
    confidence = study.analysis.confidence
    factors = [
        Factor(
            folder=str(other),
            point={name: level for name, level in some.point.items() if name != PATH},
            direct=some.claim.direct,
            test=some.test,
            change=average_change(rates, PATH, (first, other), confidence, share=len(pairs)),
        )
        for other, some, rates in pairs
    ]
    return Folders(str(first), [str(level) for level in others], factors, confidence)


def _mode(one: Pass) -> tuple[object, ...]:
    return (*(level_key(name, level) for name, level in one.point.items() if name != PATH), one.claim.direct)


def _cells(study: Study, folders: Sequence[Scalar], own: Sequence[Pass]) -> Cells:
    """The claimed rates of one test in one mode, by folder and size."""
    sizes = list(dict.fromkeys(one.size for one in own))
    grouped = {(folder, size): _rated(own, folder, size) for folder in folders for size in sizes}
    known = {place: part for place, part in grouped.items() if part}
    factors = {
        PATH: tuple(folder for folder in folders if any(place[0] == folder for place in known)),
        _SIZE: tuple(str(size) for size in sizes),
    }
    return Cells(study.name, RATE, factors, tuple(_cell(*place, part) for place, part in known.items()))


def _rated(own: Sequence[Pass], folder: Scalar, size: tuple[int, int]) -> list[Pass]:
    return [one for one in own if one.point[PATH] == folder and one.size == size and one.claim.rate_bytes_per_s]


def _cell(folder: Scalar, size: tuple[int, int], part: Sequence[Pass]) -> Cell:
    rates = np.array([one.claim.rate_bytes_per_s for one in part], dtype=np.float64)
    return Cell(
        point={PATH: folder, _SIZE: str(size)},
        values=rates,
        measured=rates,
        repetition=np.array([one.repetition for one in part], dtype=np.int64),
        order=np.array([one.order for one in part], dtype=np.int64),
        trials=tuple(one.trial for one in part),
    )
