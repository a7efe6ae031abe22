"""Metrics in what a program reports: numbers that a pattern finds in its text, or that a path leads to in its JSON.

How one number is made of several is stated by the study and never guessed: several matches are refused unless `take`
says what to do with them. Deliberately not here: claims, which are read by `formats`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ioassay import metrics, units, validation
from ioassay.errors import InputError, UsageError
from ioassay.formats import number_parsing, user_claims
from ioassay.formats.number_parsing import decimal, real
from ioassay.formats.user_claims import UserPattern
from ioassay.metrics import RATE, Metric

LARGEST_OUTPUT_BYTES = 1 << 26
"""Of one stream or file: more is no report."""
STREAMS = ("stdout", "stderr")
_TAKE: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "mean": statistics.fmean,
    "sum": math.fsum,
    "min": min,
    "max": max,
}
_FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": units.format_size,
    "bytes/s": units.format_rate,
    "s": units.format_duration,
    "ns": units.format_ns,
    "": units.format_count,
}
_STEP = re.compile(r"""\.([A-Za-z_][\w-]*)|\[(\d{1,9})\]|\[(\*)\]|\['([^']*)'\]|\["([^"]*)"\]""")
_FILE_NAME = r"^[A-Za-z0-9_][\w.-]*$"


class Reading(BaseModel):
    """One metric of `[params.metrics]`: where its number stands, and what it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    regex: str = ""
    """With a group `value`, or one group of any name; a group `unit` makes it a number with a unit."""
    path: Annotated[str, Field(alias="json")] = ""
    """A JSONPath of names, indices and `[*]`: `$.jobs[0].read.bw_bytes`."""
    source: Annotated[str, Field(alias="from", pattern=_FILE_NAME)] = "stdout"
    """`stdout`, `stderr`, or a file that the program writes to its raw folder."""
    take: Literal["only", "first", "last", "mean", "sum", "min", "max"] = "only"
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """What the number is multiplied with to have the metric's unit."""
    unit: str = ""
    better: Literal["higher", "lower", "none"] = "none"
    label: str = ""
    rate: bool = False
    """It is work of the whole load in a second."""

    @model_validator(mode="after")
    def _readable(self) -> Reading:
        if bool(self.regex) == bool(self.path):
            raise ValueError("expected either 'regex' or 'json'")
        if self.path:
            _steps(self.path)
        elif (engine := _compiled(self.regex).engine).groups != 1 and "value" not in engine.groupindex:
            raise ValueError(f"the pattern has {engine.groups} groups; expected one, or one called (?P<value>…)")
        return self

    def metric(self, name: str) -> Metric:
        """What the registry knows of it; a name of ioassay's own keeps its meaning."""
        if metrics.known_by_rule(name):
            return metrics.metric(name)
        written = _FORMATS.get(self.unit, lambda value: f"{metrics.plain(value)} {self.unit}")
        return Metric(name, self.unit, self.better, self.label or name, written, RATE if self.rate else "")


def fault_of_name(name: str, reading: Reading) -> str:
    """Why the metric cannot have this name, or these words; '' where it can."""
    if not metrics.known_by_rule(name):
        wanted = "expected words with dots between them, such as tool.speed"
        return "" if re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+", name) else f"is no name of a metric; {wanted}"
    own = metrics.metric(name)
    if reading.unit not in ("", own.unit) or reading.better not in ("none", own.better) or reading.label:
        return f"is a metric of ioassay in {own.unit or 'pieces'}; leave out unit, better and label, or rename it"
    return ""


def read(readings: Mapping[str, Reading], text_of: Callable[[str], str]) -> dict[str, float]:
    """Each metric's number. InputError names the metric, what was found and what was wanted."""
    return {name: _value(name, reading, text_of(reading.source)) for name, reading in readings.items()}


def text(path: Path, what: str) -> str:
    """What a program wrote; InputError where that is no file, or too large to be a report."""
    try:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"the program wrote no file '{what}' to its raw folder")
        size_bytes = path.stat().st_size
        if size_bytes > LARGEST_OUTPUT_BYTES:
            most = units.format_size(LARGEST_OUTPUT_BYTES)
            raise InputError(
                f"{what} has {units.format_size(size_bytes)}; expected at most {most} to read metrics from"
            )
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{what} cannot be read: {error.strerror}") from None


def _value(name: str, reading: Reading, report: str) -> float:
    key = f"params.metrics.{name}"
    values = _matched(name, reading, report, key) if reading.regex else _pointed(reading, report, key)
    if reading.take != "only":
        return _TAKE[reading.take](values) * reading.scale
    if len(values) > 1:
        ways = ", ".join(_TAKE)
        raise InputError(f"{key}: {len(values)} numbers in {reading.source}, expected one; state take as one of {ways}")
    return values[0] * reading.scale


def _compiled(pattern: str) -> UserPattern:
    try:
        return user_claims.compiled(pattern, "regex")
    except UsageError as error:
        raise ValueError(str(error)) from None


def _matched(name: str, reading: Reading, report: str, key: str) -> list[float]:
    pattern = _compiled(reading.regex)
    group: str | int = "value" if "value" in pattern.engine.groupindex else 1
    with_unit = "unit" in pattern.engine.groupindex
    unit = reading.metric(name).unit
    found = []
    for match in user_claims.matches(pattern, report, f"{key}.regex"):
        number = (match[group] or "").strip()
        found.append(_with_unit(number, match["unit"] or "", unit, key) if with_unit else decimal(number, key))
    return found


def _with_unit(number: str, printed: str, unit: str, key: str) -> float:
    """A printed number with its unit in the metric's unit."""
    if unit == "ns":
        return number_parsing.duration(number, printed.strip(), key).value * 1e9
    readers = {"bytes": number_parsing.size, "bytes/s": number_parsing.rate, "s": number_parsing.duration}
    return readers.get(unit, number_parsing.count)(number, printed.strip(), key).value


def _steps(path: str) -> list[str | int | None]:
    """Names, indices, and None for all; ValueError where it is no path."""
    found: list[str | int | None] = []
    at = 1 if path.startswith("$") else 0
    while at and at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            break
        named = next((step[group] for group in (1, 4, 5) if step[group] is not None), None)
        found.append(named if named is not None else int(step[2]) if step[2] else None)
        at = step.end()
    if not found or at < len(path):
        raise ValueError(f"json is '{path}'; expected a path such as $.jobs[0].read.bw, $.jobs[*].iops or $['a name']")
    return found


def _pointed(reading: Reading, report: str, key: str) -> list[float]:
    document = validation.document(report, f"{key}: {reading.source}", "expected one JSON document")
    values = list(_reached(document, _steps(reading.path)))
    if not values:
        raise InputError(f"{key}: {reading.path} leads to nothing in the JSON of {reading.source}")
    for value in values:
        if isinstance(value, str | bool | list | dict) or value is None:
            raise InputError(f"{key}: {reading.path} is {validation.shown(value)}; expected a number")
    return [real(value, f"{key}: {reading.path}") for value in values]


def _reached(value: Any, steps: Sequence[str | int | None]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    items = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for name in items if steps[0] is None else [steps[0]]:
        if name in items:
            yield from _reached(items[name], steps[1:])
