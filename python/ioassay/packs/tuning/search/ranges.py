"""Axes as the command line names them: `1..256`, `4KiB..1MiB`, `0.1..0.9:0.1`, `1..64:*2`, `closed:1..32`, `a,b,c`.

A range behind `log:`, and one with a factor as its step, is logarithmic: distances are those of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ioassay.errors import UsageError
from ioassay.factors import level_meaning, repeated_level
from ioassay.packs.tuning.search.axis import MAX_LEVELS, Axis, as_listed, counted, grid
from ioassay.packs.tuning.search.level_scale import Scale, scale_of
from ioassay.records.record import Scalar
from ioassay.validation import shown

_FORMS = "LOW..HIGH, LOW..HIGH:STEP, LOW..HIGH:*FACTOR, or levels with commas"
_LOG = "log:"


def ranged(name: str, text: str) -> Axis:
    """The axis `name` with the levels that `text` names; UsageError says what is wrong with it."""
    axis = _unmarked(name, text.removeprefix(_LOG), log=text.startswith(_LOG))
    if not text.startswith(_LOG):
        return axis
    if axis.numbers is None or axis.numbers[0] <= 0:
        raise wrong(name, text, "numbers, sizes or times above 0 behind log:")
    return replace(axis, log=True)


def _unmarked(name: str, text: str, *, log: bool) -> Axis:
    """The range behind its mark; `log` decides how a long one is thinned."""
    low, dots, rest = text.partition("..")
    if not dots:
        return _written(name, text)
    high, step = _split_step(rest)
    ends = [_scalar(low), _scalar(high if _word(high) else _word(low) + high)]
    scale = scale_of(ends, distinct=False)
    if scale is None or "" in ends:
        raise wrong(name, text, f"numbers, sizes or times of one kind: {_FORMS}")
    first, last = map(scale.count, ends)
    if first >= last:
        raise wrong(name, text, "the lower end first, and another one behind it")
    if step.startswith("*"):
        return counted(name, scale, _powers(name, text, first, last, step[1:]), ends, log=True)
    return _stepped(name, text, scale, ends, step, log=log and first > 0)


def _split_step(text: str) -> tuple[str, str]:
    """`0.9:0.1` -> the end and the step; the colon of `closed:64` belongs to the end."""
    head, colon, tail = text.rpartition(":")
    return (head, tail.strip()) if colon and any(letter.isdecimal() for letter in head) else (text, "")


def _word(text: str) -> str:
    """`closed:` of `closed:64`: it need not be said for both ends."""
    head, colon, _ = text.strip().rpartition(":")
    return head + colon


def _stepped(name: str, text: str, scale: Scale, ends: Sequence[Scalar], step: str, *, log: bool) -> Axis:
    """A range with a step, or with the one that its ends suggest."""
    first, last = map(scale.count, ends)
    if not step:
        return counted(name, scale, grid(first, last, scale.step([first, last]), log), ends, log=log)
    width = _scalar(_word(str(ends[0])) + step)
    finer = scale_of([*ends, width], distinct=False)
    if finer is None or finer.count(width) <= 0:
        raise wrong(name, text, "a step above 0 of the kind of the ends, such as 4KiB..1MiB:4KiB; or a factor, *2")
    counts = grid(finer.count(ends[0]), finer.count(ends[1]), finer.count(width), log)
    if len(counts) < 2:
        raise wrong(name, text, "a step that fits between the ends")
    return counted(name, finer, counts, ends, log=log)


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
    """`a,b,c`: these and no others."""
    levels = [_scalar(part) for part in text.split(",")]
    if "" in levels or len(levels) < 2:
        raise wrong(name, text, _FORMS)
    if repeated := repeated_level(name, levels):
        same = f"{shown(repeated[0])} and {shown(repeated[1])} both mean {level_meaning(name, repeated[1])}"
        raise wrong(name, text, f"each level once; {same}")
    return as_listed(name, levels)


def _scalar(text: str) -> Scalar:
    """As a TOML file would have it: 4, 0.5, true, or text."""
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
    """The range `text` of `name` is not what is wanted."""
    return UsageError(f"range of {name} is {shown(text)}, wanted {wanted}")
