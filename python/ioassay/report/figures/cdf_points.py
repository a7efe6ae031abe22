"""A cumulative distribution as a curve of few points, on which percentiles lie exactly.

Each bucket of `_core.Histogram` gives the point (its value, share of the requests up to it); straight lines join them.
The percentiles of the histogram are vertices too, so thinning the curve cannot part mark and curve. A bucket that
holds a visible share of all requests is drawn as the vertical step that it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioassay._core import Histogram

MAX_POINTS = 240
"""A curve of 640 pixels does not show more."""
_VISIBLE_STEP = 2.0
"""Percent: about seven pixels."""
Point = tuple[float, float]
"""Latency in ns and share of the requests in percent."""


def marks(histogram: Histogram, percentages: Sequence[float]) -> list[Point]:
    """The percentiles asked for, in ascending order."""
    ordered = sorted(set(percentages))
    return list(zip(histogram.quantiles([share / 100 for share in ordered]), ordered, strict=True))


def curve(histogram: Histogram, percentages: Sequence[float], most: int = MAX_POINTS) -> list[Point]:
    """At most `most` vertices, ascending, the marks among them."""
    kept = marks(histogram, percentages)
    steps = thinned(vertices(histogram), most - len(kept))
    return sorted({*steps, *kept}, key=lambda point: (point[1], point[0]))


def vertices(histogram: Histogram) -> list[Point]:
    """From 0 to 100 %, ascending in both; the value of rank r (from 0) of n lies at r / (n - 1), as type 7 has it."""
    last_rank = max(histogram.count - 1, 1)
    found: list[Point] = []
    rank = 0
    for value, count in zip(*histogram.buckets(), strict=True):
        low, high = 100 * rank / last_rank, 100 * (rank + count - 1) / last_rank
        if not found or high - low > _VISIBLE_STEP:
            found.append((float(value), low))
        found.append((float(value), high))
        rank += count
    return found if histogram.count > 1 else [found[0], (found[0][0], 100.0)]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points, spread evenly along the drawn line; the first and the last are kept.

    Lengths are those on paper: logarithmic time, percent, and both axes of about one length.
    """
    if len(points) <= most:
        return list(points)
    lengths = [0.0]
    span = math.log(max(points[-1][0], 1) / max(points[0][0], 1)) or 1.0
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        lengths.append(lengths[-1] + math.log(max(next_x, 1) / max(x, 1)) / span + (next_y - y) / 100)
    kept: list[Point] = []
    for point, length in zip(points, lengths, strict=True):
        if length >= lengths[-1] * len(kept) / (most - 1):
            kept.append(point)
    return [*kept[: most - 1], points[-1]]
