"""Levels and parameters relative to the machine: `"nproc*2"`, `"ram/4"`, as numbers where a study is planned.

    expression = [number "*"] ("nproc" | "ram") { ("*" | "/") number }

`nproc` is the number of processors that ioassay may use, `ram` the memory that the kernel manages, in bytes. Numbers of
processors are rounded down, to 1 at least; memory to whole MiB. Only keys whose values are numbers or sizes take an
expression: in a path, a name or a policy the same word is that word (`ioassay.factors` knows the kinds). A stored study
has the numbers, and beside them what was written (`model.Relative`), so that a run means the same on every machine.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ioassay.errors import StudyError
from ioassay.factors import Kind, level_axis_numbers, level_kind, same_level
from ioassay.validation import shown

if TYPE_CHECKING:
    from ioassay.study.model import Study

_MIB = 2**20
_NUMBER = r"\d+(?:\.\d+)?"
_MEANT = re.compile(rf"^\s*(?:{_NUMBER}\s*[*/+-]\s*)?(?:nproc|ram)\s*(?:$|[*/+%^(]|-\s*\d)")
"""What is meant as an expression, wrong ones included: a word of a tool that begins alike is left alone."""
_EXPRESSION = re.compile(
    rf"^\s*(?:(?P<first>{_NUMBER})\s*\*\s*)?(?P<word>nproc|ram)(?P<steps>(?:\s*[*/]\s*{_NUMBER})*)\s*$"
)
_STEP = re.compile(rf"([*/])\s*({_NUMBER})")
_NUMERIC = (Kind.OPTION, Kind.NUMBER, Kind.SIZE, Kind.SHARE)
_TABLES = ("params", "target", "run")
_WANTED = "expected for example 'nproc', 'nproc*2', 'nproc/2', 'ram*0.5' or 'ram/4'"


@dataclass(frozen=True)
class Machine:
    """What expressions are relative to."""

    processors: int
    memory_bytes: int


def this_machine() -> Machine:
    """The one that plans the study, which is the one that runs it."""
    return Machine(len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def resolved(table: Mapping[str, Any], source: str, machine: Machine | None = None) -> dict[str, Any]:
    """A study's table with numbers for its expressions, and the key `relative` for what was written.

    StudyError names the key and the value of a wrong expression.
    """
    reader = _Reader(source, machine or this_machine())
    result = dict(table)
    for part in _TABLES:
        if isinstance(values := table.get(part), Mapping):
            result[part] = reader.table(values, part, "" if part == "params" else f"{part}.")
    if isinstance(cases := table.get("case"), list):
        result["case"] = [
            reader.table(case, f"case '{case.get('name')}'", "") if isinstance(case, Mapping) else case
            for case in cases
        ]
    if isinstance(factors := table.get("factors"), Mapping):
        result["factors"] = {name: reader.levels(name, levels) for name, levels in factors.items()}
    if isinstance(watch := table.get("watch"), Mapping) and isinstance(calls := watch.get("calls"), Mapping):
        known = {name: reader.levels(name, levels, "watch.calls") for name, levels in calls.items()}
        result["watch"] = {**watch, "calls": known}
    if reader.written:
        machine = reader.machine
        result["relative"] = {
            "processors": machine.processors,
            "memory_bytes": machine.memory_bytes,
            "written": reader.written,
        }
    return result


def number(study: Study, key: str) -> Any:
    """What the value, or the levels, of a key of `Relative.written` came to."""
    place, _, name = key.partition(".")
    if place == "factors":
        return list(study.factors[name])
    if key.startswith("watch.calls."):
        calls = study.watch.calls
        return list(calls[key.removeprefix("watch.calls.")]) if isinstance(calls, Mapping) else []
    if place.startswith("case "):
        case, _, name = key.removeprefix("case '").rpartition("'.")
        return next(table[name] for table in study.case if table["name"] == case)
    values = {"params": study.params, "target": study.target.model_dump(), "run": study.run.model_dump()}
    return values[place][name]


def _is_level(level: Any) -> bool:
    return isinstance(level, bool | int | str) or (isinstance(level, float) and math.isfinite(level))


class _Reader:
    """Replaces expressions of one study, and keeps what was written by its key."""

    def __init__(self, source: str, machine: Machine) -> None:
        self.machine = machine
        self.written: dict[str, Any] = {}
        self._source = source

    def table(self, values: Mapping[str, Any], place: str, prefix: str) -> dict[str, Any]:
        return {key: self._value(f"{prefix}{key}", f"{place}.{key}", value) for key, value in values.items()}

    def levels(self, name: str, levels: Any, place: str = "factors") -> Any:
        """Each level once, in order of their numbers; a list without an expression stays as it is.

        So does what is no list of levels: the model says what is wrong with it.
        """
        if not isinstance(levels, list) or not all(map(_is_level, levels)):
            return levels
        key = f"{place}.{name}"
        found = [self._number(name, key, level) for level in levels]
        if not any(number is not None for number in found):
            return levels
        self.written[key] = list(levels)
        # Plain levels stay, so that one that is listed twice is refused as always.
        kept = [level for level, number in zip(levels, found, strict=True) if number is None]
        for number in found:
            if number is not None and not any(same_level(name, number, other) for other in kept):
                kept.append(number)
        numbers = level_axis_numbers(name, kept)
        if numbers is None:
            return kept
        return [level for _, level in sorted(zip(numbers, kept, strict=True), key=lambda pair: pair[0])]

    def _value(self, name: str, key: str, value: Any) -> Any:
        number = self._number(name, key, value)
        if number is None:
            return value
        self.written[key] = value
        return number

    def _number(self, name: str, key: str, value: Any) -> int | float | None:
        """What an expression comes to; None for every other value."""
        kind = level_kind(name)
        if not isinstance(value, str) or kind not in _NUMERIC or not _MEANT.match(value):
            return None
        match = _EXPRESSION.match(value)
        if match is None:
            message = f"{shown(value)} cannot be computed from the machine; {_WANTED}"
            raise StudyError(message, source=self._source, key=key)
        number = Fraction(self.machine.processors if match["word"] == "nproc" else self.machine.memory_bytes)
        number *= Fraction(match["first"] or 1)
        for sign, text in _STEP.findall(match["steps"]):
            if sign == "/" and not float(text):
                raise StudyError(f"{shown(value)} divides by 0; {_WANTED}", source=self._source, key=key)
            number = number * Fraction(text) if sign == "*" else number / Fraction(text)
        if match["word"] == "ram":
            return max(math.floor(number / _MIB), 1) * _MIB
        return float(number) if kind is Kind.SHARE else max(math.floor(number), 1)
