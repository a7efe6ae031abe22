"""One axis of a search: its levels, and the grids that they are taken from. Where axes come from is `space`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.packs.tuning.search.level_scale import Scale, scale_of
from ioassay.records.record import Scalar

MAX_LEVELS = 1024
"""Of one axis: over three decades two neighbours then differ by less than one per cent, which no measurement sees."""
_RATIOS_ALIKE = 1.25
"""Logarithms of neighbours' ratios differ by no more than this factor where levels are geometric: 1, 3, 10, 30."""


@dataclass(frozen=True)
class Axis:
    """One factor and all levels that may be tried.

    `levels` are as a study writes them, ascending where they have an order; `numbers` are then their values (bytes of
    sizes, seconds of times), otherwise None. `log`: distances are those of logarithms.
    """

    name: str
    levels: tuple[Scalar, ...]
    numbers: tuple[float, ...] | None = None
    log: bool = False


def as_listed(name: str, levels: Sequence[Scalar]) -> Axis:
    """These levels and no others."""
    scale = scale_of(levels)
    if scale is None:
        return Axis(name, tuple(levels))
    return counted(name, scale, sorted(map(scale.count, levels)), levels)


def between(name: str, levels: Sequence[Scalar]) -> Axis:
    """Everything from the least to the greatest of these levels; they themselves as they are written."""
    scale = scale_of(levels)
    if scale is None:
        return Axis(name, tuple(levels))
    counts = sorted(map(scale.count, levels))
    log = counted(name, scale, counts).log
    return counted(name, scale, grid(counts[0], counts[-1], scale.step(counts), log, counts), levels, log=log)


def counted(
    name: str, scale: Scale, counts: Sequence[int], written: Sequence[Scalar] = (), *, log: bool | None = None
) -> Axis:
    """The axis of these counts of a scale; levels that are `written` somewhere stay as they are there."""
    own = {scale.count(level): level for level in written}
    levels = tuple(own[count] if count in own else scale.level(count) for count in counts)
    numbers = tuple(map(scale.number, levels))
    return Axis(name, levels, numbers, is_geometric(numbers) if log is None else log)


def is_geometric(numbers: Sequence[float]) -> bool:
    """Whether ascending numbers, three or more, have one ratio, more nearly than one difference."""
    if numbers[0] <= 0 or len(numbers) < 3:
        return False
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    ratios = [math.log(after / before) for before, after in itertools.pairwise(numbers)]
    return max(ratios) <= _RATIOS_ALIKE * min(ratios) and _variation(ratios) < _variation(steps)


def _variation(numbers: Sequence[float]) -> float:
    """Standard deviation as a share of the mean."""
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)) / mean


def grid(low: int, high: int, step: int, log: bool, keep: Sequence[int] = ()) -> list[int]:
    """`low` and every `step` after it up to `high`, thinned to MAX_LEVELS; `keep` stays whatever happens."""
    steps = (high - low) // step
    if steps < MAX_LEVELS:
        return sorted({*range(low, high + 1, step), *keep})
    room = max(2, MAX_LEVELS - len(keep))
    shares = [place / (room - 1) for place in range(room)]
    wanted = [low * (high / low) ** share if log else low + (high - low) * share for share in shares]
    return sorted({low + min(steps, round((count - low) / step)) * step for count in wanted} | {*keep})
