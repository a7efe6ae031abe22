"""Regular expressions that a user writes: compiled and searched within bounds, with messages that name their option.

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

if TYPE_CHECKING:
    import regex

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

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self.engine.groups

    @property
    def groupindex(self) -> Mapping[str, int]:
        """Name -> number of each group that has a name."""
        return self.engine.groupindex


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
