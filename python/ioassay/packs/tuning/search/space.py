"""A study's factors as axes to search along: every level that may be tried, in the form a study would write it.

Which point is tried is decided elsewhere; whether a driver takes a level is found out by the driver. What stands
between two listed levels is read from how they are written:

    integers      every integer; multiples of their greatest common divisor where all are multiples of 512 (block sizes)
    sizes         multiples of the levels' greatest common divisor: a block size stays a multiple of the smallest one
    times         the same
    numbers       a grid of the last decimal place that a level has
    closed:4      every integer behind the same word
    50%           every whole percent
    words, true   as they are, without an order

An axis is `log` where three listed levels or more have a constant ratio, or the command line says so.
Of more than 1024 levels so many are kept, evenly or geometrically, and the listed ones in any case.
A scale counts levels in whole units of its own (bytes, nanoseconds, hundredths), so that nothing is lost in rounding
and a level between two others is spelled as they are.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from ioassay import metrics, units
from ioassay.errors import StudyError, UsageError
from ioassay.factors import CASE, counts_concurrency, level_meaning, repeated_level
from ioassay.hints import shown, suggestion
from ioassay.records.record import Scalar

if TYPE_CHECKING:
    from ioassay.study.model import Study

_SECTOR_BYTES = 512
_NUMBER = re.compile(r"^((?P<word>[A-Za-z][\w-]*[:=])\d+|-?\d+(\.\d+)?(?P<sign>\s*%)?)$")
_BARE = re.compile(r"^-?\d+(\.\d+)?$")
_BINARY = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_DECIMAL = (("GB", 10**9), ("MB", 10**6), ("kB", 1000))
_TIMES = (("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))
MAX_LEVELS = 1024
"""Of one axis: over three decades two neighbours then differ by less than one per cent, which no measurement sees."""
_RATIOS_ALIKE = 1.25
"""Logarithms of neighbours' ratios differ by no more than this factor where levels are geometric: 1, 3, 10, 30."""
_FORMS = "LOW..HIGH, LOW..HIGH:STEP, LOW..HIGH:*FACTOR, or levels with commas"
_LOG = "log:"
_NAME = re.compile(r"^([A-Za-z_][\w-]*|(target|run)\.[A-Za-z_][\w-]*)$")


@dataclass(frozen=True)
class Scale:
    """`count` of a level in whole units, the `level` of a count, the `number` of a level.

    `multiples`: between levels stand multiples of their greatest common divisor alone.
    """

    count: Callable[[Scalar], int]
    level: Callable[[int], Scalar]
    number: Callable[[Scalar], float]
    multiples: bool = False

    def step(self, counts: Sequence[int]) -> int:
        return (math.gcd(*counts) or 1) if self.multiples else 1


def scale_of(levels: Sequence[Scalar], *, distinct: bool = True) -> Scale | None:
    """The scale that all levels are on; None where one is a word, or (`distinct`) two mean the same."""
    for kind in (_plain_numbers, _sizes, _times):
        scale = kind(levels)
        if scale is not None:
            return scale if not distinct or len(set(map(scale.count, levels))) == len(levels) else None
    return None


def _places(text: str) -> int:
    return max(0, -int(Decimal(text).normalize().as_tuple().exponent))


def _plain_numbers(levels: Sequence[Scalar]) -> Scale | None:
    """Integers; numbers with decimals, counted in the last place that one of them has; 50 %; `closed:4`, `closed:32`.

    Text stays text, with one word before all numbers or a percent sign behind them.
    """
    if any(isinstance(level, bool) for level in levels):
        return None
    if all(isinstance(level, int) for level in levels):
        in_sectors = all(int(level) % _SECTOR_BYTES == 0 and int(level) > 0 for level in levels)
        return Scale(int, int, float, multiples=in_sectors)
    matches = [_NUMBER.match(level) if isinstance(level, str) else _NUMBER.match("0") for level in levels]
    found = [match.groupdict("") for match in matches if match]
    affixes = {(one["word"], one["sign"].strip()) for one in found}
    if len(found) < len(levels) or len(affixes) > 1:
        return None
    word, sign = affixes.pop()

    def number(level: Scalar) -> str:
        return str(level).removeprefix(word).removesuffix(sign).strip()

    places = max(_places(number(level)) for level in levels)
    as_text = all(isinstance(level, str) for level in levels)

    def level_of(count: int) -> Scalar:
        value = count / 10**places
        return f"{word}{value:.{places}f}{sign}" if as_text else round(value, places)

    return Scale(lambda level: int(Decimal(number(level)).scaleb(places)), level_of, lambda level: float(number(level)))


def _sizes(levels: Sequence[Scalar]) -> Scale | None:
    def count(level: Scalar) -> int:
        return units.parse_size(level if isinstance(level, int) else str(level))

    if not _all_read(count, levels) or any(
        _BARE.match(str(level)) and count(level) % _SECTOR_BYTES for level in levels
    ):
        return None  # a bare 4 beside '4KiB' is not meant in bytes
    decimal = any(count(level) % 1024 for level in levels) and all(count(level) % 1000 == 0 for level in levels)
    names = (*(_DECIMAL if decimal else _BINARY), ("B", 1))
    return Scale(count, lambda number: _spelled(number, names), lambda level: float(count(level)), True)


def _times(levels: Sequence[Scalar]) -> Scale | None:
    def count(level: Scalar) -> int:
        return round(Fraction(str(units.parse_duration_s(str(level)))) * 10**9)

    if not _all_read(count, levels):
        return None
    return Scale(count, lambda number: _spelled(number, _TIMES), lambda level: count(level) / 1e9, True)


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
    scale = scale_of(levels)
    if scale is None:
        return Axis(name, tuple(levels))
    return counted(name, scale, sorted(map(scale.count, levels)), levels)


def between(name: str, levels: Sequence[Scalar]) -> Axis:
    """Everything from the least to the greatest of these levels; they themselves as they are written."""
    axis, scale = as_listed(name, levels), scale_of(levels)
    if scale is None:
        return axis
    counts = sorted(map(scale.count, levels))
    inner = grid(counts[0], counts[-1], scale.step(counts), axis.log, counts)
    return counted(name, scale, inner, levels, log=axis.log)


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


def ranged(name: str, text: str) -> Axis:
    """The axis `name` with the levels that `text` names; UsageError says what is wrong with it."""
    log, bare = text.startswith(_LOG), text.removeprefix(_LOG)
    axis = _between_ends(name, bare, log=log) if ".." in bare else _written(name, bare)
    if not log:
        return axis
    if axis.numbers is None or axis.numbers[0] <= 0:
        raise wrong(name, text, "numbers, sizes or times above 0 behind log:")
    return replace(axis, log=True)


def _between_ends(name: str, text: str, *, log: bool) -> Axis:
    """`LOW..HIGH`, perhaps with a step or a factor behind it; `log` decides how a long range is thinned."""
    low, _, rest = text.partition("..")
    # `0.9:0.1` has a step behind its end; the colon of `closed:64` belongs to the end.
    head, colon, tail = rest.rpartition(":")
    high, step = (head, tail.strip()) if colon and any(letter.isdecimal() for letter in head) else (rest, "")
    ends = [scalar(low), scalar(high if _word(high) else _word(low) + high)]
    scale = scale_of(ends, distinct=False)
    if scale is None or "" in ends:
        raise wrong(name, text, f"numbers, sizes or times of one kind: {_FORMS}")
    first, last = map(scale.count, ends)
    if first >= last:
        raise wrong(name, text, "the lower end first, and another one behind it")
    if step.startswith("*"):
        return counted(name, scale, _powers(name, text, first, last, step[1:]), ends, log=True)
    log = log and first > 0
    if not step:
        return counted(name, scale, grid(first, last, scale.step([first, last]), log), ends, log=log)
    width = scalar(_word(str(ends[0])) + step)
    finer = scale_of([*ends, width], distinct=False)
    if finer is None or finer.count(width) <= 0:
        raise wrong(name, text, "a step above 0 of the kind of the ends, such as 4KiB..1MiB:4KiB; or a factor, *2")
    counts = grid(finer.count(ends[0]), finer.count(ends[1]), finer.count(width), log)
    if len(counts) < 2:
        raise wrong(name, text, "a step that fits between the ends")
    return counted(name, finer, counts, ends, log=log)


def _word(text: str) -> str:
    """`closed:` of `closed:64`: it need not be said for both ends."""
    head, colon, _ = text.strip().rpartition(":")
    return head + colon


def _powers(name: str, text: str, first: int, last: int, factor: str) -> list[int]:
    """`1..64:*2`: 1, 2, 4, …"""
    try:
        by = float(factor)
    except ValueError:
        by = 0.0
    if by <= 1 or first <= 0 or not math.isfinite(by) or round(first * by) > last:
        raise wrong(name, text, "a factor above 1 that fits between the ends, the lower one above 0: 1..64:*2")
    counts, at = [first], first * by
    while round(at) <= last and len(counts) < MAX_LEVELS:
        counts.append(round(at))
        at *= by
    return sorted(set(counts))


def _written(name: str, text: str) -> Axis:
    levels = [scalar(part) for part in text.split(",")]
    if "" in levels or len(levels) < 2:
        raise wrong(name, text, _FORMS)
    if repeated := repeated_level(name, levels):
        same = f"{shown(repeated[0])} and {shown(repeated[1])} both mean {level_meaning(name, repeated[1])}"
        raise wrong(name, text, f"each level once; {same}")
    return as_listed(name, levels)


def scalar(text: str) -> Scalar:
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number: int | float = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) and "_" not in text else text
    return text


def wrong(name: str, text: str, wanted: str) -> UsageError:
    return UsageError(f"range of {name} is {shown(text)}, expected {wanted}")


def axes(study: Study, *, ranges: Mapping[str, str] | None = None, listed: bool = False) -> tuple[Axis, ...]:
    """The axes of a study: each factor, and its cases as `case`, with two levels or more.

    `listed` keeps to the levels that the study lists. `ranges` (factor -> `1..256`, `4KiB..1MiB`, `0.1..0.9:0.1`,
    `1..64:*2`, `closed:1..32`, `a,b,c`) replaces or adds axes. Raises StudyError where nothing is left to search,
    UsageError for a range that makes no sense.
    """
    cases = tuple(str(case["name"]) for case in study.case)
    found = {CASE: Axis(CASE, cases)} if cases else {}
    for name, levels in study.factors.items():
        found[name] = as_listed(name, levels) if listed or len(levels) < 2 else between(name, levels)
    for name, text in (ranges or {}).items():
        if name != CASE:
            found[name] = _named(study, name, text)
            continue
        if not cases:
            raise wrong(CASE, text, "a factor; the study has no cases")
        # A case's name may itself have commas.
        names = [text.strip()] if text.strip() in cases else [part.strip() for part in text.split(",")]
        for unknown in (one for one in names if one not in cases):
            raise UsageError(f"range of case: no case is called {shown(unknown)}; {suggestion(unknown, cases)}")
        found[CASE] = Axis(CASE, tuple(dict.fromkeys(names)))
    varied = tuple(axis for axis in found.values() if len(axis.levels) > 1)
    if not varied:
        remedy = "expected a factor with two levels or more; name one, such as --range iodepth=1..64"
        raise StudyError(f"nothing to search; {remedy}", source=study.name, key="factors")
    return varied


def points(axes: Sequence[Axis]) -> int:
    return math.prod(len(axis.levels) for axis in axes)


def _named(study: Study, name: str, text: str) -> Axis:
    """An axis that the command line names; its factor may be new."""
    if not _NAME.match(name):
        raise UsageError(
            f"range of {shown(name)}: not a factor name; expected a parameter, or target.<key> or run.<key>"
        )
    if metrics.known(name) and not counts_concurrency(name):
        known = [*study.factors, *study.params]
        hint = suggestion(name, known) if known else "expected a parameter of the driver"
        raise UsageError(f"range of {name}: this is a metric, which is measured; {hint}")
    if owner := next((case["name"] for case in study.case if name in case), None):
        raise UsageError(
            f"range of {name}: case {shown(owner)} sets it already; expected a parameter that no case sets"
        )
    return ranged(name, text)
