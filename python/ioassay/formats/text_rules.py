"""Outputs of tools as rules: regular expressions that name the fields of a text, and the unit of each number.

    rules = Rules("pgbench", r"^latency average = (?P<mean_ns>#) ms$", mean_ns=1e6)
    rules.read(text).value("mean_ns")

`#` in a pattern is a number. A field that has a factor is a number times it, of an int a whole number. A field that has
a reader (`size`, `duration`, `count` or `rate` of `number_parsing`) has its unit in the group `<field>_unit`. Any other
field is text.
A `Tool` is what a parser of claims needs beside its rules.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import tool_runs
from ioassay.formats.number_parsing import (
    NUMBER,
    Quantity,
    count,
    duration,
    last_line,
    lines_with,
    mark,
    rate,
    scaled,
    size,
    whole_number,
)
from ioassay.records.record import Claim

Reader = Callable[[str, str, str], Quantity]
Unit = float | Reader


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression, in which `#` is a number and ^ and $ are the ends of lines."""
    return re.compile(text.replace("#", NUMBER), re.M)


@dataclass(frozen=True)
class Fields:
    """What a text says by some rules."""

    tool: str
    numbers: Mapping[str, Quantity]
    texts: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.numbers or name in self.texts

    def __getitem__(self, name: str) -> Quantity:
        """A number that has to be there: InputError where it is not."""
        if name not in self.numbers:
            shown = name.replace("_", " ")
            raise InputError(f"{self.tool} printed no '{shown}': its output is not complete, or of another version")
        return self.numbers[name]

    def text(self, name: str) -> str:
        """A text, '' where it is not there."""
        return self.texts.get(name, "")

    def value(self, name: str) -> float | None:
        """A number, None where it is not there."""
        return self.numbers[name].value if name in self.numbers else None

    def whole(self, name: str) -> int | None:
        """A number of pieces or bytes, None where it is not there."""
        return self.numbers[name].rounded if name in self.numbers else None

    def positive(self, *names: str) -> dict[str, float]:
        """Those of the numbers that are there and not 0, which says nothing of a latency."""
        return {name: value for name in names if (value := self.value(name))}


class Rules:
    """Patterns that belong together; see the module."""

    def __init__(self, tool: str, *patterns: str, **units: Unit) -> None:
        self.tool, self.units, self._texts = tool, units, patterns

    @cached_property
    def patterns(self) -> list[re.Pattern[str]]:
        """Compiled when they are needed: a file may have rules of many tools."""
        return [pattern(text) for text in self._texts]

    def read(self, text: str) -> Fields:
        """What the first match of each pattern says; InputError for a number that nothing can have measured."""
        return self._fields(found for each in self.patterns if (found := each.search(text)))

    def line(self, text: str) -> Fields | None:
        """What the whole line says by the first pattern that fits."""
        found = next((found for each in self.patterns if (found := each.fullmatch(text.strip()))), None)
        return self._fields([found]) if found else None

    def lines(self, text: str, needle: str | re.Pattern[str]) -> Iterator[Fields]:
        """What each line that has `needle` says; those that no pattern fits are left out."""
        return (fields for _, line in lines_with(text, needle) if (fields := self.line(line)))

    def _fields(self, matches: Iterable[re.Match[str]]) -> Fields:
        texts: dict[str, str] = {}
        for found in matches:
            mark(found.string, *found.span())
            texts |= {name: text for name, text in found.groupdict().items() if text is not None}
        numbers = {}
        for name in texts.keys() & self.units.keys():
            unit, what = self.units[name], f"{self.tool}'s {name.replace('_', ' ')}"
            if callable(unit):
                numbers[name] = unit(texts[name], texts.get(f"{name}_unit", ""), what)
            else:
                number = str(whole_number(texts[name], what)) if isinstance(unit, int) else texts[name]
                numbers[name] = scaled(number, unit, what)
        return Fields(self.tool, numbers, texts)


_READERS = {"size": size, "duration": duration, "count": count, "rate": rate}


@cache
def rules(path: Path) -> Mapping[str, Rules]:
    """The rules of a TOML file: tables with the `tool`, its `patterns`, and `units`, factors or names of readers."""
    found = {}
    for name, one in tomllib.loads(path.read_text(encoding="utf-8")).items():
        units = {field: _READERS.get(unit, unit) for field, unit in one["units"].items()}
        found[name] = Rules(one["tool"], *one["patterns"], **units)
    return found


class Tool:
    """A tool whose claims are read: an entry of `formats.PARSERS`."""

    def __init__(
        self,
        name: str,
        *,
        sign: str | Callable[[str], object],
        claims: Callable[[str, Sequence[str]], Iterable[Claim]],
        missing: str,
        silent: Callable[[str, Sequence[str]], bool] = lambda text, words: False,
        stream: str = "stdout",
        **more: Any,
    ) -> None:
        """`claims` reads an output, with the words of its call; `sign` is a pattern in it, or a function that tells it.

        `missing` says what an output without claims lacks, unless it may be `silent`. `more` are members of a parser
        that not all have, such as `split` or `CONVENTIONS`.
        """
        self.NAME = name
        self.STREAM = stream
        self.matches = partial(tool_runs.is_program_of, name)
        self._sign: Callable[[str], object] = sign if callable(sign) else pattern(sign).search
        self._claims, self._missing, self._silent = claims, missing, silent
        vars(self).update(more)

    def looks_like(self, text: str) -> bool:
        """Whether an output is the tool's."""
        return bool(self._sign(text))

    def words(self, argv: Sequence[str]) -> Sequence[str]:
        """The tool and its arguments; none where no word names it."""
        return tool_runs.words_of(argv, self.matches)

    def read(self, text: str, argv: Sequence[str] = ()) -> list[Claim]:
        """The claims in their order; InputError where there should be some and are none."""
        words = self.words(argv)
        claims = list(self._claims(text, words))
        if not claims and not self._silent(text, words):
            raise InputError(f"{self._missing}; its output ends with {last_line(text)}")
        return claims
