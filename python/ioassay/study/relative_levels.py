"""Levels and parameters relative to the machine, `"nproc*2"`, or to an earlier study, `workers = "best of jobs"`.

    expression = [number "*"] ("nproc" | "ram") { ("*" | "/") number }
    reference  = "best of" STUDY [ "for" RESPONSE ]

`nproc` is the number of processors that ioassay may use, `ram` the memory that the kernel manages, in bytes. Numbers of
processors are rounded down, to 1 at least; memory to whole MiB. Only keys whose values are numbers or sizes take an
expression: in a path, a name or a policy the same word is that word (`ioassay.factors` knows the kinds). A stored study
has the numbers, and beside them what was written (`model.Relative`), so that a run means the same on every machine.

A reference is a parameter that is the best level of an earlier study of the same suite. Until that one has its records,
the parameter has a stand-in, the first level there: it is checked and estimated with it, and no trial runs with it.
Which level is best is found by `analysis.conclusion.choose`, when `runner.run` asks.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ioassay.errors import StudyError
from ioassay.factors import Kind, level_axis_numbers, level_kind, same_level
from ioassay.hints import shown
from ioassay.study.model import Study, Suite

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
        result["relative"] = {**vars(reader.machine), "written": reader.written}
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


class _Reader:
    """Replaces expressions of one study, and keeps what was written by its key."""

    def __init__(self, source: str, machine: Machine) -> None:
        self.machine = machine
        self.written: dict[str, Any] = {}
        self._source = source

    def table(self, values: Mapping[str, Any], place: str, prefix: str) -> dict[str, Any]:
        found = {key: self._number(f"{prefix}{key}", f"{place}.{key}", value) for key, value in values.items()}
        self.written |= {f"{place}.{key}": values[key] for key, number in found.items() if number is not None}
        return {key: value if found[key] is None else found[key] for key, value in values.items()}

    def levels(self, name: str, levels: Any, place: str = "factors") -> Any:
        """Each level once, in order of their numbers; a list without an expression stays as it is.

        So does what is no list of levels: the model says what is wrong with it.
        """
        if not isinstance(levels, list) or not all(
            isinstance(level, bool | int | str) or (isinstance(level, float) and math.isfinite(level))
            for level in levels
        ):
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
        return kept if numbers is None else [kept[place] for place in sorted(range(len(kept)), key=numbers.__getitem__)]

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


# The best level of an earlier study

_REFERENCE = re.compile(r"^\s*best of (?P<study>\w[\w.-]*)(?: for (?P<response>\S+))?\s*$")


@dataclass(frozen=True)
class Reference:
    """What a parameter waits for: the best level of the factor of its own name."""

    factor: str
    study: str
    response: str
    """'' for the one that the earlier study is about."""


def references(study: Study) -> list[Reference]:
    pending = study.relative.pending if study.relative else {}
    return [_read(name, text) for name, text in pending.items()]


def follows(study: Study) -> bool:
    """Whether a parameter is, or was until it became known, the best of an earlier study."""
    written = study.relative.written.values() if study.relative else ()
    return bool(references(study)) or any(isinstance(text, str) and _REFERENCE.match(text) for text in written)


def with_stand_ins(tables: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> list[dict[str, Any]]:
    """The tables of a suite's studies with stand-ins for all references.

    StudyError names key and value of one to no earlier study, or to one without a factor of the parameter's name.
    """
    results: list[dict[str, Any]] = []
    for table, source in zip(tables, sources, strict=True):
        params = table.get("params")
        waiting = {
            name: text
            for name, text in (params.items() if isinstance(params, Mapping) else ())
            if isinstance(text, str) and _REFERENCE.match(text)
        }
        if not waiting or not isinstance(params, Mapping):
            results.append(dict(table))
            continue
        known = {
            name: _first_level(_read(name, text), text, results, table.get("name", ""), source)
            for name, text in waiting.items()
        }
        relative = {**vars(this_machine()), "written": {}, **table.get("relative", {}), "pending": waiting}
        results.append({**table, "params": {**params, **known}, "relative": relative})
    return results


def _read(name: str, text: str) -> Reference:
    match = _REFERENCE.match(text)
    if match is None:
        raise ValueError(f"'{text}' refers to no study")
    return Reference(name, match["study"], match["response"] or "")


def _first_level(wanted: Reference, text: str, earlier: Iterable[Mapping[str, Any]], own: str, source: str) -> Any:
    key, known = f"params.{wanted.factor}", {str(table.get("name")): table for table in earlier}
    if wanted.study not in known:
        others = f"expected one of {', '.join(known)}" if known else f"'{own}' has no study before it in a suite"
        raise StudyError(f"'{text}': no earlier study of the suite has this name; {others}", source=source, key=key)
    study = known[wanted.study]
    levels = study.get("factors", {}).get(wanted.factor)
    if not isinstance(levels, list) or not levels:
        factors = ", ".join(study.get("factors", {})) or "none"
        message = f"'{text}': that study has no factor '{wanted.factor}'; its factors: {factors}"
        raise StudyError(message, source=source, key=key)
    responses = study.get("analysis", {}).get("responses", [])
    if wanted.response and responses and wanted.response not in responses:
        message = f"'{text}': that study has no such response; expected one of {', '.join(responses)}"
        raise StudyError(message, source=source, key=key)
    return levels[0]


def settled(suite: Suite, study: Study, levels: Mapping[str, Any]) -> tuple[Suite, Study]:
    """Suite and study with the levels that were found in place of the stand-ins, and what was written beside them."""
    assert study.relative is not None
    written = {f"params.{name}": text for name, text in study.relative.pending.items()}
    relative = study.relative.model_copy(update={"written": {**study.relative.written, **written}, "pending": {}})
    found = study.model_copy(update={"params": {**study.params, **levels}, "relative": relative})
    studies = [found if one.name == study.name else one for one in suite.studies]
    return suite.model_copy(update={"studies": studies}), found
