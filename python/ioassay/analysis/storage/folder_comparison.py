"""Which of two folders is faster, at what and by which factor? Of passes, test by test, with intervals.

For studies with a factor `target.path`. All others are compared with the first folder; a factor over several sizes is
the geometric mean of theirs. Only trials that count are compared, so with twins those without the witness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.passes import Pass
from ioassay.factors import level_key
from ioassay.records.record import Scalar
from ioassay.stats.ratio_of_means import Ratio, average_ratio
from ioassay.stats.result import Floats, Undefined
from ioassay.study.model import Study

PATH = "target.path"


@dataclass(frozen=True)
class Factor:
    """How many times faster than the first folder another one is, at one test in one mode."""

    folder: str
    point: Mapping[str, Scalar]
    direct: bool | None
    test: str
    ratio: Ratio | Undefined

    @property
    def size(self) -> float | None:
        """The factor, None where there is none."""
        return None if isinstance(self.ratio, Undefined) else self.ratio.ratio

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Its bounds, None where there is none."""
        if isinstance(self.ratio, Undefined):
            return None, None
        return self.ratio.interval.low, self.ratio.interval.high

    @property
    def sign(self) -> int:
        """1 where the other folder is faster beyond noise, -1 where the first is, else 0."""
        low, high = self.interval
        if low is None or high is None or low <= 1 <= high:
            return 0
        return 1 if low > 1 else -1


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
    confidence = study.analysis.confidence
    factors = [factor for other in present[1:] for factor in _factors(counted, present[0], other, confidence)]
    return Folders(str(present[0]), [str(level) for level in present[1:]], factors, confidence)


def _factors(counted: Sequence[Pass], first: Scalar, other: Scalar, confidence: float) -> list[Factor]:
    groups: dict[tuple[object, ...], list[Pass]] = {}
    for one in counted:
        groups.setdefault((*_mode(one), one.test), []).append(one)
    found = []
    for own in groups.values():
        sizes = dict.fromkeys(one.size for one in own)
        pairs = [(_rates(own, other, size), _rates(own, first, size)) for size in sizes]
        if whole := [pair for pair in pairs if all(part.size for part in pair)]:
            point = {name: level for name, level in own[0].point.items() if name != PATH}
            direct, ratio = own[0].claim.direct, average_ratio(whole, confidence)
            found.append(Factor(str(other), point, direct, own[0].test, ratio))
    return found


def _mode(one: Pass) -> tuple[object, ...]:
    return (*(level_key(name, level) for name, level in one.point.items() if name != PATH), one.claim.direct)


def _rates(own: Sequence[Pass], folder: Scalar, size: tuple[int, int]) -> Floats:
    found = [one.claim.rate_bytes_per_s for one in own if one.point[PATH] == folder and one.size == size]
    return np.array([rate for rate in found if rate], dtype=np.float64)
