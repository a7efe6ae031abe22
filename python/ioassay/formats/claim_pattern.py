"""Claims that a regular expression of the user finds in an output: `--claim-regex '(?P<rate>[0-9.]+) (?P<unit>.+/s)'`.

Each match is one claim, in the order of the text; lines are ^ to $. The names of the groups say what a number is. A
unit is a group of its own: `unit` belongs to the number before it, or to the one after it where there is none before,
and `rate_unit`, `bytes_unit` … to theirs. Sizes, durations and kinds are those of --claim. What was rounded is claimed
as such: a number of operations only where it is whole, bytes with the step of their last digit.

How long a search may take is bounded by `user_pattern`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ioassay.errors import InputError, UsageError
from ioassay.formats import printed_quantity, user_pattern
from ioassay.formats.number_parsing import whole_number
from ioassay.formats.printed_quantity import Quantity
from ioassay.formats.stated_claim import KINDS
from ioassay.formats.text_rules import Fields
from ioassay.formats.user_pattern import UserPattern
from ioassay.records.record import Claim

if TYPE_CHECKING:
    import regex

NAME = "user"
OPTION = "--claim-regex"

_UNITS = {
    "bytes": printed_quantity.size,
    "ops": printed_quantity.count,
    "seconds": printed_quantity.duration,
    "rate": printed_quantity.rate,
    "latency": printed_quantity.duration,
    "record": printed_quantity.size,
    "syncs": printed_quantity.count,
}
"""Groups that are numbers with a unit, which may be a part of the group itself."""
_AMOUNTS = ("bytes", "ops", "seconds", "rate", "latency")
_WORDS = ("kind", "path", "test")
GROUPS = (*_UNITS, *_WORDS, "unit", *(f"{name}_unit" for name in _UNITS))
_NUMBER = re.compile(r"([0-9][0-9.,]{0,40}(?:e[-+]?[0-9]{1,3})?)\s*(.{0,40})", re.S)


def parse(pattern: str, option: str = OPTION) -> UserPattern:
    """The compiled pattern; UsageError says what is wrong with it, and names `option` and the groups that there are."""
    compiled = user_pattern.compiled(pattern, option)
    unknown = [name for name in compiled.groupindex if name not in GROUPS]
    if unknown:
        raise UsageError(f"{option} {pattern!r}: no group is called '{unknown[0]}'; expected {', '.join(GROUPS)}")
    if not compiled.groupindex.keys() & set(_AMOUNTS):
        raise UsageError(
            f"{option} {pattern!r}: claims no number; expected one of the groups {', '.join(_AMOUNTS)}, "
            "such as (?P<bytes>[0-9]+)"
        )
    return compiled


def read(pattern: UserPattern, text: str, option: str = OPTION, kind: str = "read") -> list[Claim]:
    """One claim a match, of `kind` where the match says none.

    InputError when there is none, or too many, when it takes too long, or a number is none.
    """
    return [_claim(match, option, kind) for match in user_pattern.matches(pattern, text, option)]


def _claim(match: regex.Match[str], option: str, usual_kind: str) -> Claim:
    words = {name: text.strip() for name, text in match.groupdict().items() if text is not None and text.strip()}
    numbers = {
        name: _quantity(name, words[name], _unit(name, words, match), option) for name in _UNITS if name in words
    }
    kind = _kind(words.get("kind", usual_kind), option)
    found, exact = Fields(NAME, numbers, words), {name for name, one in numbers.items() if one.whole and one.step == 1}
    operations = found.whole("ops") if "ops" in exact else None
    volume = found.whole("bytes") if "bytes" in exact or operations is None else None
    rounded = {"rate"} if volume is None else {"rate", "bytes"}
    return Claim(
        source=NAME,
        kind=kind,
        test=found.text("test"),
        operations=operations,
        bytes=volume,
        seconds=found.value("seconds"),
        rate_bytes_per_s=found.value("rate"),
        rate_unit_bytes=max((numbers[name].step for name in rounded & numbers.keys()), default=1.0),
        clock_step_s=numbers["seconds"].step if "seconds" in numbers else 0.0,
        latency_ns={"mean": numbers["latency"].value * 1e9} if "latency" in numbers else {},
        syncs=found.whole("syncs") if "syncs" in exact else None,
        paths=(words["path"],) if "path" in words else (),
        record_bytes=found.whole("record"),
    )


def _kind(word: str, option: str) -> str:
    """`READ`, `reads` and `written` are understood; InputError names the kinds."""
    known = {form: kind for kind in KINDS for form in (kind, f"{kind}s")}
    known |= {"written": "write", "writing": "write", "reading": "read", "rw": "mixed"}
    if word.lower() not in known:
        raise InputError(f"{option}: {word[:40]!r} is no kind; expected {', '.join(KINDS)}")
    return known[word.lower()]


def _unit(name: str, words: Mapping[str, str], match: regex.Match[str]) -> str:
    """That of the number's own group of units, or of `unit` where it is the nearest number to it."""
    if own := words.get(f"{name}_unit"):
        return own
    if "unit" not in words:
        return ""
    place = match.start("unit")
    ends = {match.end(other): other for other in _UNITS if other in words}
    before = [end for end in ends if end <= place]
    nearest = ends[max(before)] if before else ends[min(ends)]
    return words["unit"] if nearest == name else ""


def _quantity(name: str, text: str, unit: str, option: str) -> Quantity:
    """A unit within the group counts where none has a group."""
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        raise InputError(f"{option}: {name} is {text[:40]!r}; expected a number")
    quantity = _UNITS[name](parts[1], unit or parts[2].strip(), f"{option}: {name}")
    whole_number(round(quantity.value), f"{option}: {name}")
    return quantity
