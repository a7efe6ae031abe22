"""Numbers and lines as tools print them, read with suspicion: output is untrusted text of any length.

Every reader here is linear in the text, and refuses with InputError what no benchmark can have measured. Which lines
mean what is the business of the parsers. At the end: printed numbers that follow from others of the same output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from ioassay import units
from ioassay.errors import InputError
from ioassay.records.record import Misfit

LARGEST = 2**63 - 1
"""What a tool's own counters hold; beyond it a number is an overflow."""
_LARGEST_TEXT, _LONGEST_NAME = 2**20, 60
_LONGEST_LINE = 20_000
"""No line of a benchmark that means something is longer, but for JSON, which is not read by lines."""


def whole_number(value: object, what: str) -> int:
    """A count of 0 to `LARGEST` from text or a JSON number; InputError names `what`."""
    number = int(real(value, what)) if isinstance(value, float) else value
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"[0-9]{1,19}", value) else None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= LARGEST:
        _refuse(value, what)
    return number


def real(value: object, what: str) -> float:
    """A finite number, not negative, at most `LARGEST`, from text or a JSON number; InputError names `what`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        _refuse(value, what)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        _refuse(value, what)
    if not 0 <= number <= LARGEST:  # NaN fails as well
        _refuse(value, what)
    return number


def decimal(text: str, what: str) -> float:
    """A number in anyone's locale: `0,5`, `1.234,5`, `1,234.5`, `1 234,5`, `1'234`; InputError names `what`.

    The last comma or point is the decimal one, unless it stands several times: then it separates thousands.
    """
    plain = re.sub(r"[\s'’\u00a0\u202f_]", "", text)
    last = max(plain.rfind(","), plain.rfind("."))
    if last >= 0 and plain.count(plain[last]) == 1:
        plain = re.sub(r"[.,]", "", plain[:last]) + "." + plain[last + 1 :]
    else:
        plain = re.sub(r"[.,]", "", plain)
    return real(plain, what)


def step_of(text: str) -> float:
    """The value of the last digit of a printed number: 0.1 for `2.2`, 1 for `133`, 10 for `1.74e+03`."""
    last = max(text.rfind(","), text.rfind("."))
    power = re.search(r"\de([+-]?\d{1,3})$", text)
    digits = 0 if last < 0 else len(re.sub(r"\D.*", "", text[last + 1 :]))
    return 10.0 ** ((int(power[1]) if power else 0) - digits)


def lines_with(text: str, needle: str | re.Pattern[str], start: int = 0) -> Iterator[tuple[int, str]]:
    """Each line (ended by a line feed or a carriage return) that has `needle`, with its end; very long ones left out.

    A search for a fixed text, or for a short pattern, is some ten times as fast as looking at every line.
    """

    while True:
        match = None if isinstance(needle, str) else needle.search(text, start)
        found = text.find(needle, start) if isinstance(needle, str) else match.start() if match else -1
        if found < 0:
            return
        begin = 1 + max(text.rfind("\n", start, found), text.rfind("\r", start, found), start - 1)
        end = line_end(text, found)
        if end - begin <= _LONGEST_LINE:
            yield end, text[begin:end]
        start = end


_MARKS: ContextVar[dict[str, bool] | None] = ContextVar("lines that are read, names that are not", default=None)


def mark(text: str, start: int = 0, end: int | None = None) -> None:
    """Note that the lines with this part of a text are read: what import does not name as left out."""
    if (noted := _MARKS.get()) is not None:
        feed = text.rfind("\n", 0, start) + 1
        begin = max(feed, text.rfind("\r", feed, start) + 1)
        stop = line_end(text, len(text) if end is None else end)
        noted.update((line.strip(), True) for line in text[begin:stop].splitlines())


def leave_out(names: Iterable[str]) -> None:
    """Note what a reader leaves out itself, such as keys of a document: what import names as well."""
    if (noted := _MARKS.get()) is not None:
        noted.update((name, False) for name in names)


@contextmanager
def marks() -> Iterator[dict[str, bool]]:
    """The lines that are read meanwhile, in this thread, and names of what is not."""
    noted: dict[str, bool] = {}
    token = _MARKS.set(noted)
    try:
        yield noted
    finally:
        _MARKS.reset(token)


_PRINTED = re.compile(r"(?<![A-Za-z_.0-9:])[0-9][0-9.]*(?![0-9.]*:)")
"""But for the time of day."""
_WORDS = re.compile(r"[A-Za-z%][A-Za-z/%_-]+(?: [A-Za-z/()%_-]+)*")


def unread(text: str, noted: Mapping[str, bool]) -> list[str]:
    """Names of what is left out, and of the numbers, or their section, in lines after the first read one that are not.

    What repeats numbers of lines that were read is none.
    """
    read = {line for line, is_read in noted.items() if is_read}
    found = {name: None for name in noted if name not in read}
    if not read:
        return [*found]
    known = {number for line in read for number in _PRINTED.findall(line)}
    heading, begun = "", False
    for line in (line.strip() for line in text[:_LARGEST_TEXT].splitlines()):
        numbers = _PRINTED.findall(line[:_LONGEST_LINE])
        begun = begun or line in read
        if not numbers or not begun:
            heading = heading if "--" in line else line[:_LONGEST_NAME].strip(" :-=") or heading
        elif line not in read and not known.issuperset(numbers):
            words = None if line[0].isdigit() and heading else _WORDS.search(line[:_LONGEST_LINE])
            found[words[0][:_LONGEST_NAME].rstrip(" (") if words else heading] = None
    return [name for name in found if name]


def line_end(text: str, start: int) -> int:
    """Where the line that goes on at `start` ends."""
    feed = text.find("\n", start)
    end = feed if feed >= 0 else len(text)
    carriage = text.find("\r", start, end)  # in this line only: looking further would take quadratic time
    return carriage if carriage >= 0 else end


def next_lines(text: str, start: int, count: int) -> list[str]:
    """Up to `count` lines after the line that ends at `start`, empty ones left out."""
    found: list[str] = []
    while start < len(text) and len(found) < count:
        end = line_end(text, start + 1)
        if line := text[start + 1 : min(end, start + 1 + _LONGEST_LINE)].strip():
            found.append(line)
        start = end
    return found


def parts_from(text: str, starts: Sequence[int]) -> list[str]:
    """A part from each start to the next; the first one has what is before it as well."""
    return [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])] if starts else []


def text_around(text: str, places: Sequence[tuple[int, int]]) -> str:
    """What is left of a text without the pieces from a start to an end, which are in their order."""
    gaps = zip([0, *(end for _, end in places)], [*(start for start, _ in places), len(text)], strict=True)
    return "\n".join(piece for start, end in gaps if (piece := text[start:end].strip()))


def _refuse(value: object, what: str) -> NoReturn:
    shown = repr(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
    raise InputError(f"{what} is {shown[:60]}; expected a number from 0 to {LARGEST}")


# Numbers with a unit as tools and users print them: their value in the base unit, and the step of their last digit.
#
# `12.2 MiB` is a value that is known to a tenth of a MiB, `3.13 k` requests may be 3125 to 3135, `8 KiB` may or may not
# be exact: that depends on the tool, and its parser decides. Sizes follow `ioassay.units` (k and KiB are 1024, kB is
# 1000), as do durations; counts have k for 1000.

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
    return scaled(number, factor, what)


def rate(number: str, unit: str, what: str) -> Quantity:
    """Bytes a second: `MiB/s`, `MB/sec`, `MBps`, or a size alone."""
    return size(number, re.sub(r"(/s|/sec|/second|ps)$", "", unit), what)


def duration(number: str, unit: str, what: str) -> Quantity:
    """Seconds; InputError names `what`."""
    try:
        factor = units.parse_duration_s(f"1{_DURATIONS.get(unit.lower(), unit)}")
    except ValueError:
        raise InputError(f"{what} has the unit {unit[:40]!r}; expected ns, us, ms, s, min, h or d") from None
    return scaled(number, factor, what)


def count(number: str, unit: str, what: str) -> Quantity:
    """Pieces; InputError names `what`."""
    if unit not in _COUNTS:
        raise InputError(f"{what} has the unit {unit[:40]!r}; expected k, M, G, T or none")
    return scaled(number, _COUNTS[unit], what)


def scaled(number: str, factor: float, what: str) -> Quantity:
    """A printed number times the factor of its unit, with its step; InputError names `what`."""
    whole = re.fullmatch(r"[0-9]{1,19}", number) is not None
    value = (whole_number(number, what) if whole else decimal(number, what)) * factor
    if value > LARGEST:
        raise InputError(f"{what} is {value:g}; expected a number from 0 to {LARGEST}")
    return Quantity(value, step_of(number) * factor, whole)


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


# Printed numbers that follow from others of the same output, and those of them that do not fit. A tool prints most of
# what it measured several times: a rate is an amount over a time, the longest request is the highest percentile, a sum
# is a mean times a number. Readers state these relations with the rounding of each number.

_EXACT = 1e-6
"""Of a number that was computed in double precision and printed with six or more digits."""


def between(name: str, value: float, low: float, high: float) -> list[Misfit]:
    """The number where it is not from `low` to `high`."""
    return [] if low <= value <= high else [Misfit(name, value, max(low, 0.0), high if high < math.inf else None)]


def equal(name: str, value: float, other: float, step: float) -> list[Misfit]:
    """The number where it is further than `step`, and the error of computed numbers, from what the others imply."""
    step += _EXACT * abs(other)
    return between(name, value, other - step, other + step)


def quotient(name: str, amount: float, seconds: float, per_s: float, *steps: float) -> list[Misfit]:
    """A rate that is not the amount over the time; `steps` are how far the three may be off by their rounding."""
    amount_step, seconds_step, rate_step = steps
    if seconds <= seconds_step:
        return []
    low, high = (amount - amount_step) / (seconds + seconds_step), (amount + amount_step) / (seconds - seconds_step)
    slack = rate_step + _EXACT * high
    return between(name, per_s, low - slack, high + slack)


@dataclass(frozen=True)
class Spread:
    """What is printed of one distribution; 0 of what is not. `step` is that of its printed numbers."""

    count: int
    mean: float
    stddev: float
    least: float
    most: float
    percentiles: Mapping[float, float] = field(default_factory=dict)
    step: float = 0.0
    bucket_share: float = 0.0
    """Width of a bucket, of which percentiles are printed, over its value."""


def of_spread(name: str, spread: Spread) -> list[Misfit]:
    """Statistics that no distribution has together."""
    count, mean, stddev, step = spread.count, spread.mean, spread.stddev, spread.step
    least, most, percentiles, share = spread.least, spread.most, spread.percentiles, spread.bucket_share
    if count < 1 or not most:
        return []
    found = between(f"{name} mean", mean, least - step, most + step) if mean else []
    for percent, value in percentiles.items():
        rank, loose = math.ceil(percent / 100 * count - _EXACT), 2 * step + share * value
        low, high = (most if rank >= count else least), (least if rank <= 1 else most)
        found += between(f"{name} p{percent:g}", value, low - loose, high + loose)
    for (low_percent, low), (high_percent, high) in pairwise(sorted(percentiles.items())):
        if low > high:
            found += between(f"{name} p{low_percent:g}", low, 0.0, percentiles[high_percent])
    if count > 1 and stddev and mean:
        # Bhatia and Davis (2000); and what the two ends alone amount to.
        widest = math.sqrt(max((most - mean) * (mean - least), 0.0) * count / (count - 1))
        narrowest = math.sqrt(((most - mean) ** 2 + (mean - least) ** 2) / count)
        found += between(f"{name} deviation", stddev, narrowest * (1 - 1e-4) - step, widest * (1 + 1e-4) + step)
    return found + (_by_percentiles(name, spread) if percentiles and mean else [])


def _by_percentiles(name: str, spread: Spread) -> list[Misfit]:
    """Mean and deviation lie between those of the lowest and the highest values that percentiles allow."""
    mean, step, loose = spread.mean, spread.step, 1 + spread.bucket_share
    edges = [(0.0, spread.least), *sorted(spread.percentiles.items()), (100.0, spread.most)]
    parts = [
        (high - low, below / loose - step, above * loose + step) for (low, below), (high, above) in pairwise(edges)
    ]
    lowest, highest = (sum(part[0] * part[end] for part in parts) / 100 for end in (1, 2))
    one = (spread.most - spread.least) / spread.count  # which the definitions of a percentile are apart
    found = between(f"{name} mean", mean, lowest - one, highest + one)
    if spread.stddev and spread.count > 1:
        squares = [(share, [(end - mean) ** 2 for end in (low, high)], low < mean < high) for share, low, high in parts]
        least = sum(share * (0.0 if inside else min(ends)) for share, ends, inside in squares) / 100
        most = sum(share * max(ends) for share, ends, _ in squares) / 100
        one = max(spread.most - mean, mean - spread.least) ** 2 / spread.count
        bounds = math.sqrt(max(least - one, 0.0)), math.sqrt(max(most + one, 0.0) * spread.count / (spread.count - 1))
        found += between(f"{name} deviation", spread.stddev, bounds[0] - step, bounds[1] + step)
    return found
