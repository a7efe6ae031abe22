"""Numbers with a unit as tools and users print them: their value in the base unit, and the step of their last digit.

`12.2 MiB` is a value that is known to a tenth of a MiB, `3.13 k` requests may be 3125 to 3135, `8 KiB` may or may not
be exact: that depends on the tool, and its parser decides. Sizes follow `ioassay.units` (k and KiB are 1024, kB is
1000), as do durations; counts have k for 1000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay import units
from ioassay.errors import InputError
from ioassay.formats.number_parsing import LARGEST, decimal, step_of, whole_number

NUMBER = r"[0-9][0-9.]{0,24}"
"""A number in the C locale, as part of a pattern."""

_DURATIONS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "µs", "μs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
}
_COUNTS = {prefix: 1000**power for power, prefix in enumerate(["", "k", "M", "G", "T"])} | {"K": 1000}


@dataclass(frozen=True)
class Quantity:
    """A printed number in its base unit: bytes, seconds, or pieces."""

    value: float
    step: float
    """The value of its last digit."""
    whole: bool
    """It was printed without decimals."""

    @property
    def rounded(self) -> int:
        """The nearest whole number."""
        return round(self.value)


def size(number: str, unit: str, what: str) -> Quantity:
    """Bytes; a rate's `/s` or `/sec` is to be cut off first. InputError names `what`."""
    plain = "" if unit.lower() in ("byte", "bytes") else unit
    try:
        factor = units.parse_size(f"1{plain}")
    except ValueError:
        raise InputError(f"{what} has the unit {unit[:40]!r}; expected B, k, KiB, kB, M, MiB, MB …") from None
    return _quantity(number, factor, what)


def rate(number: str, unit: str, what: str) -> Quantity:
    """Bytes a second: `MiB/s`, `MB/sec`, `MBps`, or a size alone."""
    return size(number, re.sub(r"(/s|/sec|/second|ps)$", "", unit), what)


def duration(number: str, unit: str, what: str) -> Quantity:
    """Seconds; InputError names `what`."""
    try:
        factor = units.parse_duration_s(f"1{_DURATIONS.get(unit.lower(), unit)}")
    except ValueError:
        raise InputError(f"{what} has the unit {unit[:40]!r}; expected ns, us, ms, s, min, h or d") from None
    return _quantity(number, factor, what)


def count(number: str, unit: str, what: str) -> Quantity:
    """Pieces; InputError names `what`."""
    if unit not in _COUNTS:
        raise InputError(f"{what} has the unit {unit[:40]!r}; expected k, M, G, T or none")
    return _quantity(number, _COUNTS[unit], what)


def _quantity(number: str, factor: float, what: str) -> Quantity:
    whole = re.fullmatch(r"[0-9]{1,19}", number) is not None
    value = (whole_number(number, what) if whole else decimal(number, what)) * factor
    if value > LARGEST:
        raise InputError(f"{what} is {value:g}; expected a number from 0 to {LARGEST}")
    return Quantity(value, step_of(number) * factor, whole)


def latencies_ns(parts: Mapping[str, Quantity]) -> dict[str, float]:
    """Statistics in nanoseconds from durations; those that are printed as 0 say nothing."""
    return {name: part.value * 1e9 for name, part in parts.items() if part.value > 0}


def last_line(text: str) -> str:
    """The end of an output, for a message about it."""
    lines = text.strip()[-100:].splitlines()
    return repr(lines[-1]) if lines else "nothing"


def short_options(words: Sequence[str], valued: str) -> dict[str, str]:
    """Options of one letter, as getopt finds them, with their values ('' for flags); flags may be joined and repeated.

    What is no option is under '' (the last of it).
    """
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in ("-", "--"):
            options[""] = word
            continue
        for place, letter in enumerate(word[1:], 1):
            if letter in valued:
                options[letter] = word[place + 1 :] or next(rest, "")
                break
            options[letter] = options.get(letter, "") + letter
    return options
