"""Recipes of made traces: from what people write to what the core takes. The core checks the numbers."""

from __future__ import annotations

import re
from typing import Any

from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.units import parse_size

Law = tuple[str, list[float]]

ARRIVALS = ("none", "fixed:RATE", "uniform:RATE", "poisson:RATE", "bursts:RATE:LENGTH:PEAK_RATE")
ADDRESSES = ("uniform", "normal", "zipf:THETA", "hot-cold:ACCESSES:SPACE", "sequential[:RUN[:STREAMS]]")
"""The forms of both laws, as the core knows them."""

_MOST_ALIGN_BYTES = 4096
_SECTOR_BYTES = 512


def recipe(
    *,
    requests: int = 1_000_000,
    arrivals: str = "poisson:20000",
    addresses: str = "uniform",
    sizes: str | int = "4KiB",
    reads: float = 0.0,
    trims: float = 0.0,
    range: str | int = "1GiB",
    align: str | int | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """The recipe of a made trace; docs/workloads.md has every form.

    `arrivals`: none, fixed:RATE, uniform:RATE, poisson:RATE, bursts:RATE:LENGTH:PEAK_RATE (requests a second).
    `addresses`: uniform, normal, zipf:THETA, hot-cold:ACCESSES:SPACE, sequential[:RUN[:STREAMS]].
    `sizes`: a size, exponential:MEAN, or sizes with weights, 4KiB:3,64KiB:1.
    `reads` and `trims` are shares of the requests; all else writes. `align` is 4 KiB unless told, or the smallest size
    where that is less. Raises UsageError.
    """
    law = _sizes(str(sizes))
    return {
        "requests": requests,
        "arrivals": _law("arrivals", arrivals, ARRIVALS),
        "addresses": _law("addresses", addresses, ADDRESSES),
        "sizes": law,
        "reads": reads,
        "trims": trims,
        "range_bytes": _size("range", range),
        "align_bytes": _natural_align(law) if align is None else _size("align", align),
        "seed": seed,
    }


def _law(name: str, text: str, forms: tuple[str, ...]) -> Law:
    """`zipf:0.99` -> ("zipf", [0.99])."""
    law, *numbers = text.strip().split(":")
    known = [re.split(r"\W*:", form)[0] for form in forms]
    if law not in known:
        raise UsageError(f"{name} is '{text}', expected {', '.join(forms[:-1])} or {forms[-1]}{nearest(law, known)}")
    try:
        return law, [float(number) for number in numbers]
    except ValueError:
        raise UsageError(f"{name} is '{text}', expected a name and numbers, such as zipf:0.99") from None


def _sizes(text: str) -> Law:
    """`4KiB` -> ("fixed", [4096]); `4KiB:3,8KiB:1` -> ("weighted", [4096, 3, 8192, 1])."""
    name, _, rest = text.partition(":")
    if name.strip() == "exponential":
        return "exponential", [_size("sizes", rest)]
    if not rest and "," not in text:
        return "fixed", [_size("sizes", text)]
    numbers: list[float] = []
    for part in text.split(","):
        size, _, weight = part.partition(":")
        try:
            numbers += [_size("sizes", size), float(weight or 1)]
        except ValueError:
            raise UsageError(f"sizes has the weight '{weight}', expected a number, such as 4KiB:3,64KiB:1") from None
    return "weighted", numbers


def _size(name: str, text: str | int) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def _natural_align(sizes: Law) -> int:
    law, numbers = sizes
    if law == "exponential":
        return _SECTOR_BYTES
    smallest = min(numbers if law == "fixed" else numbers[::2])
    return max(1, min(_MOST_ALIGN_BYTES, int(smallest)))
