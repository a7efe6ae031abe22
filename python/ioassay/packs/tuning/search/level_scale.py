"""How levels that have an order are written, and what stands between them. Knows nothing of factors and searches.

A scale counts levels in whole units of its own (bytes, nanoseconds, hundredths), so that nothing is lost in rounding
and a level between two others is spelled as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from ioassay import units
from ioassay.records.record import Scalar

_SECTOR_BYTES = 512
_BEHIND = re.compile(r"^(?P<word>[A-Za-z][\w-]*[:=])(?P<number>\d+)$")
_BARE = re.compile(r"^-?\d+(\.\d+)?$")
_BINARY = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_DECIMAL = (("GB", 10**9), ("MB", 10**6), ("kB", 1000))
_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))


@dataclass(frozen=True)
class Scale:
    """`count` of a level in whole units, the `level` of a count, the `step` between levels, the `number` of a level."""

    count: Callable[[Scalar], int]
    level: Callable[[int], Scalar]
    step: Callable[[Sequence[int]], int]
    number: Callable[[Scalar], float]


def scale_of(levels: Sequence[Scalar], *, distinct: bool = True) -> Scale | None:
    """The scale that all levels are on; None where one is a word, or (`distinct`) two mean the same."""
    for kind in (_integers, _decimals, _percents, _behind_words, _sizes, _times):
        scale = kind(levels)
        if scale is not None:
            return scale if not distinct or len(set(map(scale.count, levels))) == len(levels) else None
    return None


def _one(counts: Sequence[int]) -> int:
    return 1


def _common(counts: Sequence[int]) -> int:
    return math.gcd(*counts) or 1


def _integers(levels: Sequence[Scalar]) -> Scale | None:
    if not all(isinstance(level, int) and not isinstance(level, bool) for level in levels):
        return None
    in_sectors = all(int(level) % _SECTOR_BYTES == 0 and int(level) > 0 for level in levels)
    return Scale(int, int, _common if in_sectors else _one, float)


def _places(text: str) -> int:
    """Decimal places, of `1e-05` five."""
    return max(0, -int(Decimal(text).normalize().as_tuple().exponent))


def _decimals(levels: Sequence[Scalar]) -> Scale | None:
    """Numbers, some with decimals: counted in the last place that one of them has. Text stays text."""
    if any(isinstance(level, bool) for level in levels):
        return None
    if not all(isinstance(level, int | float) or _BARE.match(level) for level in levels):
        return None
    places = max(_places(str(level)) for level in levels)
    as_text = all(isinstance(level, str) for level in levels)

    def level_of(count: int) -> Scalar:
        number = count / 10**places
        return f"{number:.{places}f}" if as_text else round(number, places)

    return Scale(lambda level: int(Decimal(str(level)).scaleb(places)), level_of, _one, lambda level: float(str(level)))


def _percents(levels: Sequence[Scalar]) -> Scale | None:
    texts = [level.removesuffix("%").strip() for level in levels if isinstance(level, str) and level.endswith("%")]
    if len(texts) < len(levels) or not all(map(_BARE.match, texts)):
        return None
    places = max(map(_places, texts))

    return Scale(
        lambda level: int(Decimal(str(level).removesuffix("%").strip()).scaleb(places)),
        lambda count: f"{count / 10**places:.{places}f}%",
        _one,
        lambda level: float(str(level).removesuffix("%")),
    )


def _behind_words(levels: Sequence[Scalar]) -> Scale | None:
    """`closed:4`, `closed:32`: one word and a number behind it."""
    found = [_BEHIND.match(level) for level in levels if isinstance(level, str)]
    matches = [match for match in found if match]
    if len(matches) < len(levels) or len({match["word"] for match in matches}) > 1:
        return None
    word = matches[0]["word"]

    def count(level: Scalar) -> int:
        return int(str(level).removeprefix(word))

    return Scale(count, lambda number: f"{word}{number}", _one, lambda level: float(count(level)))


def _sizes(levels: Sequence[Scalar]) -> Scale | None:
    def count(level: Scalar) -> int:
        return units.parse_size(level if isinstance(level, int) else str(level))

    if not _all_read(count, levels) or any(
        _BARE.match(str(level)) and count(level) % _SECTOR_BYTES for level in levels
    ):
        return None  # a bare 4 beside '4KiB' is not meant in bytes
    decimal = any(count(level) % 1024 for level in levels) and all(count(level) % 1000 == 0 for level in levels)
    names = (*(_DECIMAL if decimal else _BINARY), ("B", 1))
    return Scale(count, lambda number: _spelled(number, names), _common, lambda level: float(count(level)))


def _times(levels: Sequence[Scalar]) -> Scale | None:
    def count(level: Scalar) -> int:
        return round(Fraction(str(units.parse_duration_s(str(level)))) * 10**9)

    if not _all_read(count, levels):
        return None
    return Scale(count, lambda number: _spelled(number, _TIMES), _common, lambda level: count(level) / 1e9)


def _all_read(count: Callable[[Scalar], int], levels: Sequence[Scalar]) -> bool:
    if any(isinstance(level, bool | float) for level in levels):
        return False
    try:
        return all(count(level) >= 0 for level in levels)
    except ValueError:
        return False


def _spelled(number: int, names: Sequence[tuple[str, int]]) -> str:
    """In the largest unit of which it is a whole number."""
    unit, factor = next((unit, factor) for unit, factor in names if number % factor == 0 and (number or factor == 1))
    return f"{number // factor}{unit}"
