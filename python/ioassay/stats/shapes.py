"""What means do over levels in order: rise, fall, have a peak or a dip, stay level, or rise and fall.

A word needs certain pairs, of the family of contrasts, and a curve of its shape that fits all means. The ends alone say
nothing: a saw may end anywhere. The test of the curve rejects it at MISFIT; that it does not is no proof of the shape.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from ioassay.stats import distributions
from ioassay.stats.contrasts import TIE, Contrasts, best
from ioassay.stats.result import Floats

_TURNS = 0.5
"""Of means that rise, the largest fall is less than this share of their range."""
MISFIT = 0.02
"""Risk of the test that rejects a shape for its misfit."""


class ShapeKind(StrEnum):
    """What the level means certainly do."""

    UP = "up"
    """The highest level is above the lowest, no level is above a later one, and all together rise (`monotone`)."""
    DOWN = "down"
    PEAK = "peak"
    """A level inside is above the first and the last; none is above a later one before it, or below one after it."""
    DIP = "dip"
    LEVEL = "level"
    """All levels agree to within the margin."""
    UNCLEAR = "unclear"
    """Levels differ, or not, but not in a way that has a direction."""
    MIXED = "mixed"
    """Levels are above later ones and below later ones, and there is not a single peak or dip."""


def direction(contrasts: Contrasts) -> ShapeKind:
    """What the pairs show of levels in order, where a curve of that shape fits all means."""
    if contrasts.equivalent:
        return ShapeKind.LEVEL
    rises, falls, means = contrasts.rises, contrasts.falls, contrasts.means.means
    last, ends = len(rises) - 1, (best(means, lower=True, bounded=contrasts.bounded), best(means))
    if rises.any() and falls.any():
        for kind, before, after in ((ShapeKind.PEAK, rises, falls), (ShapeKind.DIP, falls, rises)):
            for inner in range(1, last):
                turns = before[inner:, inner:].any() or after[: inner + 1, : inner + 1].any()
                certain = before[0, inner] and after[inner, last] and not turns
                if certain and misfit_p(contrasts, inner, lower=kind == ShapeKind.DIP) >= MISFIT:
                    return kind
        return ShapeKind.MIXED
    if rises[ends] and goes(contrasts, 1):
        return ShapeKind.UP
    return ShapeKind.DOWN if falls[ends[::-1]] and goes(contrasts, -1) else ShapeKind.UNCLEAR


def goes(contrasts: Contrasts, way: int) -> bool:
    """Whether all means go up (1) or down (-1), and no pair of levels certainly goes the other way.

    Lower bounds are above all they rise from, and nothing more is known of them.
    """
    against, size = contrasts.falls if way > 0 else contrasts.rises, len(contrasts.bounded)
    at_the_top = range(len(against))[-size:] if way > 0 else range(size)
    known = not size or contrasts.bounded == tuple(at_the_top)
    return known and not against.any() and monotone(contrasts, lower=way < 0)


def monotone(family: Contrasts, *, lower: bool = False) -> bool:
    """Whether the means of levels in order rise (`lower`: fall), as far as they show: a rising curve fits all of them.

    They end higher by more than they ever fall, and fall by less than half of their range: a saw may end anywhere.
    """
    values = -family.means.estimates if lower else family.means.estimates
    fall = float((np.maximum.accumulate(values) - values).max())
    rises = values[-1] - values[0] > fall < _TURNS * np.ptp(values)
    return bool(rises) and misfit_p(family, values.size - 1, lower=lower) >= MISFIT


def misfit_p(family: Contrasts, turn: int, *, lower: bool = False) -> float:
    """That the true means rise up to level `turn` and fall from there on (`lower`: fall, and then rise).

    The likelihood-ratio test of an order of means: the distance from the nearest such curve, which for equal means,
    the least favourable, follows F with as many degrees of freedom as that curve lacks levels, by chance (Robertson,
    Wright and Dykstra, "Order Restricted Statistical Inference", 1988, 2.3, for equal weights).
    """
    means, distance, chances = family.means, 0.0, np.ones(1)
    values = -means.estimates if lower else means.estimates
    weights = np.ones(values.size) if means.exact else 1 / means.squared_errors
    for part, own in ((values[: turn + 1], weights[: turn + 1]), (-values[turn:], weights[turn:])):
        apart = part - _rising(part, own)
        distance += float(np.sum(np.where(np.abs(apart) > TIE * np.abs(part).max(), own * apart**2, 0.0)))
        for level in range(2, part.size + 1):
            chances = np.convolve(chances, [1 / level, 1 - 1 / level])  # [i]: that i levels are lacking
    if means.exact or not distance:
        return float(not distance)
    df = float(means.df_of_sums(means.squared_errors[None, :], np.arange(values.size)[None, :])[0])
    tails = [distributions.f_sf(distance / lacking, lacking, df) for lacking in range(1, chances.size)]
    return float(chances[1:] @ tails)


def _rising(values: Floats, weights: Floats) -> Floats:
    """The nearest values that never fall: of all means from a level before to one after, the largest least one."""
    sums, sizes = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights * values, weights))
    first, last = np.ogrid[: values.size, : values.size]
    within = first <= last
    averages = (sums[last + 1] - sums[first]) / np.where(within, sizes[last + 1] - sizes[first], 1.0)
    least = np.minimum.accumulate(np.where(within, averages, np.inf)[:, ::-1], axis=1)[:, ::-1]
    found: Floats = np.where(within, least, -np.inf).max(axis=0)
    return found
