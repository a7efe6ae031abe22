"""Where good points lie dense and others do not: what long searches propose besides what a model finds.

Method: the tree-structured Parzen estimator of J. Bergstra et al., "Algorithms for Hyper-Parameter Optimization",
NIPS 2011. Each axis has two densities over its levels, one of the best points (a tenth, 25 at most) and one of the
others. Of 24 levels drawn from the first, the one with the largest ratio of the two is proposed. Its cost does not
grow with the third power of what is known, as that of the model in `surrogate` does. It keeps nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ioassay.tune.candidate_grid import Grid, Key

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_GOOD, _MOST_GOOD = 0.1, 25
_DRAWN = 24
_NARROWEST = 100
"""No kernel is narrower than this part of an axis."""


def proposed(grid: Grid, ranked: Sequence[Key], random: np.random.Generator) -> Key:
    """A point where the best of `ranked`, which is best first, lie denser than the others; at least one is needed."""
    count = min(math.ceil(_GOOD * len(ranked)), _MOST_GOOD)
    good, others = ranked[:count], ranked[count:]
    return tuple(
        _level(
            _density(places, ordered, [key[axis] for key in good]),
            _density(places, ordered, [key[axis] for key in others]),
            random,
        )
        for axis, (places, ordered) in enumerate(zip(grid.places, grid.ordered, strict=True))
    )


def _level(good: Array, others: Array, random: np.random.Generator) -> int:
    drawn = random.choice(len(good), _DRAWN, p=good)
    return int(drawn[(good / others)[drawn].argmax()])


def _density(places: Array, ordered: bool, levels: Sequence[int]) -> Array:
    """The probability of each level of an axis: of the levels seen and, once, of any."""
    import numpy as np

    anywhere = np.full(len(places), 1 / len(places))
    if not levels:
        return anywhere
    if not ordered:
        return np.asarray((np.bincount(levels, minlength=len(places)) + anywhere) / (len(levels) + 1))
    seen = np.sort(places[np.array(levels)])
    # As wide as the wider gap to a neighbour; the ends of the axis are neighbours too.
    gaps = np.diff(np.concatenate(([0.0], seen, [1.0])))
    widths = np.clip(np.maximum(gaps[:-1], gaps[1:]), 1 / min(_NARROWEST, 1 + len(seen)), 1.0)
    kernels = np.exp(-0.5 * ((places[None, :] - seen[:, None]) / widths[:, None]) ** 2) + 1e-12
    kernels /= kernels.sum(axis=1, keepdims=True)
    return np.asarray((kernels.sum(axis=0) + anywhere) / (len(levels) + 1))
