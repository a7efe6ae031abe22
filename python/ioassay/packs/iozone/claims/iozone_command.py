"""What an IOzone command line asks for: tests, files, how they are opened, what the clock includes.

IOzone reads its options with getopt, so flags may be joined (`-Rab x.xls` is -R -a -b) and values may follow without
a space (`-i0`). Only what a claim needs is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_VALUED = set("bdfgHijJklLmnPqrsStuUVXyY")
"""Options with a value; -F takes words up to the next option, -+ has its second letter as value."""
_VALUED_EXTRA = set("mstuxiwyCTBhV")
"""Those of -+ that take the following word: -+m file, -+h host, …"""


@dataclass(frozen=True)
class Invocation:
    """What a command line of IOzone asks for. Without -i, all tests run: `tests` is None."""

    tests: frozenset[int] | None = None
    flags: frozenset[str] = frozenset()
    """Letters without a value, and -+n as '+n'."""
    values: dict[str, list[str]] = field(default_factory=dict)
    files: Sequence[str] = ()

    @property
    def includes(self) -> tuple[str, ...]:
        """-e and -c bring fsync and close into the interval."""
        return tuple(name for flag, name in (("e", "fsync"), ("c", "close")) if flag in self.flags)

    @property
    def no_retest(self) -> bool:
        """-+n: no rewrite, no reread, no second backward pass."""
        return "+n" in self.flags

    def runs(self, test: int) -> bool:
        """Whether test -i `test` was asked for."""
        return self.tests is None or test in self.tests


def parse_invocation(words: Sequence[str]) -> Invocation:
    """Read the words after the program's name; unknown options are taken as flags."""
    flags: set[str] = set()
    values: dict[str, list[str]] = {}
    files: list[str] = []
    for letter, value in _options(list(words)):
        if value is None:
            flags.add(letter)
        elif letter == "F":
            files.append(value)
        else:
            values.setdefault(letter, []).append(value)
    tests = [int(value) for value in values.get("i", ()) if re.fullmatch(r"[0-9]{1,3}", value)]
    return Invocation(frozenset(tests) if tests else None, frozenset(flags), values, files or values.get("f", []))


def _options(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Each option with its value, as getopt finds them."""
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if not word.startswith("-") or len(word) < 2:
            continue
        if word.startswith("-+"):
            yield f"+{word[2:3]}", None
            place += word[2:3] in _VALUED_EXTRA and len(word) == 3 and _is_value(words, place)
            continue
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            if letter == "F":
                names = [rest] if rest else []
                while _is_value(words, place):
                    names.append(words[place])
                    place += 1
                yield from (("F", name) for name in names)
                rest = ""
            elif letter in _VALUED:
                value = rest or (words[place] if place < len(words) else "")
                place += not rest
                yield letter, value
                rest = ""
            else:
                yield letter, None


def _is_value(words: Sequence[str], place: int) -> bool:
    return place < len(words) and not words[place].startswith("-")
