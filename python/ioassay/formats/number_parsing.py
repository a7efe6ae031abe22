"""Numbers and lines as tools print them, read with suspicion: output is untrusted text of any length.

Every reader here is linear in the text, and refuses with InputError what no benchmark can have measured. Which lines
mean what is the business of the parsers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NoReturn

from ioassay.errors import InputError

LARGEST = 2**63 - 1
"""What a tool's own counters hold; beyond it a number is an overflow."""
_LONGEST_LINE = 20_000
"""No line of a benchmark that means something is longer, but for JSON, which is not read by lines."""


def whole_number(value: object, what: str) -> int:
    """A count of 0 to `LARGEST` from text or a JSON number; InputError names `what`."""
    number = value
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"[0-9]{1,19}", value) else None
    elif isinstance(value, float):
        number = int(real(value, what))
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
    while (found := _place(text, needle, start)) >= 0:
        begin = 1 + max(text.rfind("\n", start, found), text.rfind("\r", start, found), start - 1)
        end = line_end(text, found)
        if end - begin <= _LONGEST_LINE:
            yield end, text[begin:end]
        start = end


def _place(text: str, needle: str | re.Pattern[str], start: int) -> int:
    if isinstance(needle, str):
        return text.find(needle, start)
    match = needle.search(text, start)
    return match.start() if match else -1


def line_end(text: str, start: int) -> int:
    """Where the line that goes on at `start` ends."""
    ends = [end for end in (text.find("\n", start), _return(text, start)) if end >= 0]
    return min(ends, default=len(text))


def _return(text: str, start: int) -> int:
    """The next carriage return, looked for in this line only: looking further would take quadratic time."""
    end = text.find("\n", start)
    return text.find("\r", start, end if end >= 0 else len(text))


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
