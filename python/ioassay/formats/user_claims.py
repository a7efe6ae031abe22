"""Claims that a regular expression of the user finds in an output (`--claim-regex`).

A pattern of a user may take exponential time. Python's engine has no limit, that of the library `regex` has one of CPU
time, in any thread. It understands more than Python's, and some of it otherwise. A pattern means what `re` says: `re`
has to accept it, and it is translated. What stays different is rare: `\\w` has combining marks and lacks numbers that
are no digits (`²`), `\\s` lacks the separators U+001C to U+001F, `\\B` matches in an empty text, and possessive groups
have not the faults that they have in `re`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ioassay.errors import InputError, UsageError
from ioassay.formats import number_parsing
from ioassay.formats.number_parsing import Quantity, whole_number
from ioassay.formats.text_rules import Fields
from ioassay.records.record import Claim

if TYPE_CHECKING:
    import regex

SOURCE = "user"
KINDS = ("read", "write", "trim", "mixed", "keys")
_KIND_WORDS = {form: kind for kind in KINDS for form in (kind, f"{kind}s")} | {
    **dict.fromkeys(("written", "writing"), "write"),
    "reading": "read",
    "rw": "mixed",
}
"""What is understood in any case: `READ`, `reads` and `written`."""
_LONGEST_PATTERN = 2000
_MOST_ITEMS = 100_000
"""`regex` copies what is repeated as often as it has to match, and once more: 0.2 to 0.4 kB an item."""
_MOST_MATCHES = 10_000
_MOST_CPU_S = 5.0
"""Of the whole process, as `regex` reads clock(3): other threads that compute shorten it. The library itself limits its
memory, to half a gigabyte."""

_TOKEN = re.compile(
    r"""\\N\{[^}]*\} | \\.                         # an escape
    | \[ \^? \]? (?: \\. | [^\]\\] )* \]            # a set of characters
    | \(\?\# [^)]* \)                               # a comment
    | (?P<verbose> \(\?[a-zA-Z]*x )
    | (?P<repetition> \{ (?P<least> \d* ) (?: (?<=\d) | (?=,) ) (?: ,\d* )? \} | [*+] )
    | . """,
    re.S | re.X,
)
_POSIX_SET = re.compile(r"(?<!\\)\[:\^?\w+:\]")


@dataclass(frozen=True)
class UserPattern:
    """A pattern as it was written, and ready to be searched for; see `compiled`."""

    text: str
    engine: regex.Pattern[str]


def compiled(pattern: str, option: str) -> UserPattern:
    """The pattern, whose ^ and $ are the ends of lines; UsageError names `option`."""
    import regex

    if len(pattern) > _LONGEST_PATTERN:
        raise UsageError(f"{option}: has {len(pattern)} characters; expected at most {_LONGEST_PATTERN}")
    if posix := _POSIX_SET.search(pattern):
        raise UsageError(f"{option} {pattern!r}: Python has no set {posix[0]}; expected one such as [a-zA-Z] or \\w")
    try:
        re.compile(pattern, re.M)
        engine = regex.compile(_translated(pattern, option), regex.M | regex.V0)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"{option} {pattern!r}: is no regular expression of Python: {error}") from None
    except regex.error as error:
        raise UsageError(f"{option} {pattern!r}: cannot be searched for within a time limit: {error}") from None
    return UserPattern(pattern, engine)


def matches(pattern: UserPattern, text: str, option: str) -> list[regex.Match[str]]:
    """All matches in their order. InputError when there are none or too many, or when it takes too long."""
    try:
        found = list(islice(pattern.engine.finditer(text, timeout=_MOST_CPU_S), _MOST_MATCHES + 1))
    except (TimeoutError, MemoryError) as error:
        what = f"{_MOST_CPU_S:g} s of CPU time" if isinstance(error, TimeoutError) else "half a gigabyte of memory"
        raise InputError(
            f"{option} {pattern.text!r} took more than {what}; "
            "begin it with ^ or a fixed word, and avoid a repetition in a repetition"
        ) from None
    if len(found) > _MOST_MATCHES:
        raise InputError(f"{option} {pattern.text!r} matches more than {_MOST_MATCHES} times")
    if not found:
        raise InputError(f"{option} {pattern.text!r} matches nothing in the output")
    return found


def _translated(pattern: str, option: str) -> str:
    """A pattern that `re` accepts as `regex` has to read it: a brace that repeats nothing is no fuzzy match there.

    UsageError for the flag x, and for repetitions that `regex` would need too much memory for.
    """
    parts: list[str] = []
    items, last = [0], 0  # of each group that is open; of what a repetition would repeat
    for token in _TOKEN.finditer(pattern):
        part = token[0]
        if token["verbose"]:
            raise UsageError(f"{option} {pattern!r}: has the flag x; expected a pattern without spaces and comments")
        if token["repetition"]:
            repeated = last * (int(token["least"] or 0) if part.startswith("{") else int(part == "+"))
            items[-1], last = items[-1] + repeated, last + repeated
        elif part == "(":
            items.append(0)
        elif part == ")":
            last = items.pop()
            items[-1] += last
        else:
            items[-1], last = items[-1] + 1, 1
        parts.append(r"\{" if part == "{" else part)
    if sum(items) > _MOST_ITEMS:
        raise UsageError(f"{option} {pattern!r}: repeats too much: {sum(items)} items; expected at most {_MOST_ITEMS}")
    return "".join(parts)


# Claims that a regular expression of the user finds in an output: `--claim-regex '(?P<rate>[0-9.]+) (?P<unit>.+/s)'`.
# Each match is one claim, in the order of the text; lines are ^ to $. The names of the groups say what a number is. A
# unit is a group of its own: `unit` belongs to the number before it, or to the one after it where there is none before,
# and `rate_unit`, `bytes_unit` … to theirs. Sizes, durations and kinds are those of --claim. What was rounded is
# claimed as such: a number of operations only where it is whole, bytes with the step of their last digit.

OPTION = "--claim-regex"

_UNITS = {
    "bytes": number_parsing.size,
    "ops": number_parsing.count,
    "seconds": number_parsing.duration,
    "rate": number_parsing.rate,
    "latency": number_parsing.duration,
    "record": number_parsing.size,
    "syncs": number_parsing.count,
}
"""Groups that are numbers with a unit, which may be a part of the group itself."""
_AMOUNTS = ("bytes", "ops", "seconds", "rate", "latency")
_WORDS = ("kind", "path", "test")
GROUPS = (*_UNITS, *_WORDS, "unit", *(f"{name}_unit" for name in _UNITS))
_NUMBER = re.compile(r"([0-9][0-9.,]{0,40}(?:e[-+]?[0-9]{1,3})?)\s*(.{0,40})", re.S)


def claim_pattern(pattern: str, option: str = OPTION) -> UserPattern:
    """The compiled pattern; UsageError says what is wrong with it, and names `option` and the groups that there are."""
    found = compiled(pattern, option)
    groups = found.engine.groupindex
    if unknown := [name for name in groups if name not in GROUPS]:
        raise UsageError(f"{option} {pattern!r}: no group is called '{unknown[0]}'; expected {', '.join(GROUPS)}")
    if not groups.keys() & set(_AMOUNTS):
        raise UsageError(
            f"{option} {pattern!r}: claims no number; expected one of the groups {', '.join(_AMOUNTS)}, "
            "such as (?P<bytes>[0-9]+)"
        )
    return found


def pattern_claims(pattern: UserPattern, text: str, option: str = OPTION, kind: str = "read") -> list[Claim]:
    """One claim a match, of `kind` where the match says none.

    InputError when there is none, or too many, when it takes too long, or a number is none.
    """
    return [_claim(match, option, kind) for match in matches(pattern, text, option)]


def _claim(match: regex.Match[str], option: str, usual_kind: str) -> Claim:
    words = {name: text.strip() for name, text in match.groupdict().items() if text is not None and text.strip()}
    numbers: dict[str, Quantity] = {}
    for name in [name for name in _UNITS if name in words]:
        if (parts := _NUMBER.fullmatch(words[name])) is None:
            raise InputError(f"{option}: {name} is {words[name][:40]!r}; expected a number")
        unit = _unit(name, words, match) or parts[2].strip()  # one within the group counts where none has a group
        numbers[name] = _UNITS[name](parts[1], unit, f"{option}: {name}")
        whole_number(round(numbers[name].value), f"{option}: {name}")
    found = Fields(SOURCE, numbers, words)
    exact = {name for name, one in numbers.items() if one.whole and one.step == 1}
    operations = found.whole("ops") if "ops" in exact else None
    volume = found.whole("bytes") if "bytes" in exact or operations is None else None
    rounded = {"rate"} if volume is None else {"rate", "bytes"}
    if (word := words.get("kind", usual_kind)).lower() not in _KIND_WORDS:
        raise InputError(f"{option}: {word[:40]!r} is no kind; expected {', '.join(KINDS)}")
    return Claim(
        source=SOURCE,
        kind=_KIND_WORDS[word.lower()],
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
