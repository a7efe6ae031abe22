"""The driver command: any program, with metrics and claims that patterns find in what it reports.

It needs no plugin, and knows nothing of its program: the study states what is a number, in which unit, and what of the
target the program may change. No check can see what a program does, so that each needs the user's consent; it is
confined and witnessed like every other tool. Deliberately not here: pipes and shells (name one in `argv`), and programs
that have a driver or a parser of claims of their own.

`[params]` says what runs, what it may write and what it reports. Any other key is a value for a place in the words. One
that no place uses is refused: it would be a factor without an effect.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ioassay import formats, metrics, units, validation
from ioassay.drivers import ended_badly, last_words
from ioassay.errors import InputError, StudyError, UsageError
from ioassay.formats import number_parsing, user_claims
from ioassay.formats.number_parsing import decimal, real
from ioassay.formats.user_claims import UserPattern
from ioassay.hints import shown, suggestion
from ioassay.metrics import RATE, Metric
from ioassay.records.record import FAILED, OK, Scalar, Warning_
from ioassay.roles import READ, WRITE, Command, Driver, Estimate, External, Load, Outcome, Parsed, Touch, Trial
from ioassay.validation import error_text

TIME, CPU_TIME = "command.time", "command.cpu_time"


class CommandDriver(Driver):
    """Runs a program of the study. docs/drivers.md describes its parameters. Implements `roles.Driver`."""

    name = "command"
    measures = True
    responses = (TIME,)
    metrics = (
        Metric(TIME, "s", "lower", "Time of the command", units.format_duration),
        Metric(CPU_TIME, "s", "lower", "CPU time of the command", units.format_duration),
    )

    def declared_metrics(self, params: Mapping[str, Any]) -> Sequence[Metric]:
        """Those of `[params.metrics]`; none of parameters that this version cannot read."""
        try:
            readings = read(params).metrics
        except StudyError:
            return ()
        return [reading.metric(name) for name, reading in readings.items()]

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError for a wrong parameter, a place without a value, or a program that is not here."""
        program = read(params)
        has_target = target.get("kind", "null") != "null"
        # Values for a trial that is not yet there.
        given: dict[str, Scalar] = {name: 0 if name in ("seed", "repetition", "size") else name for name in GIVEN}
        known = values(params, {name: value for name, value in given.items() if has_target or name not in _OF_TARGET})
        for key, text in program.texts():
            fill(text, known, key)
        if program.access in ("read", "write") and not has_target:
            raise StudyError(
                f"is '{program.access}', and the study has no target; expected [target]", key="params.access"
            )
        self.touches(params)
        executable = fill(program.argv[0], known, "params.argv[0]")
        if shutil.which(executable) is None:
            raise StudyError(f"'{executable}' is no program here; install it, or give its path", key="params.argv")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """As the study states; WRITE where it states nothing and a word names the target."""
        return read(params).effect

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """Files of `reads` and `writes`, which may depend on factors and on nothing that only a trial has."""
        program, known = read(params), values(params, {})
        named = [("reads", READ, text, 0) for text in program.reads]
        named += [("writes", WRITE, text, int(size)) for text, size in program.writes.items()]
        return [
            Touch(Path(fill(text, known, f"params.{key}")).expanduser(), access, size_bytes)
            for key, access, text, size_bytes in named
        ]

    def externals(self, params: Mapping[str, Any]) -> Sequence[External]:
        return [External(f"params.argv = {shlex.join(read(params).argv)}", "runs a program that the study names")]

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The time that the study expects; what is written cannot be known."""
        program = read(params)
        written = None if program.effect == "write" or program.writes else 0
        return Estimate(units.parse_duration_s(program.expected_time), written)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """The words with their places filled in, in the working directory of ioassay unless `cwd` names another."""
        program = read(trial.params)
        given: dict[str, Scalar] = {"raw": str(raw.absolute()), "seed": trial.seed, "repetition": trial.repetition}
        if load.path is not None:
            given |= {"target": str(load.path), "size": load.size_bytes}
        known = values(trial.params, given)
        return Command(
            words(program.argv, known, "params.argv"),
            units.parse_duration_s(program.timeout),
            files={name: fill(text, known, f"params.files.{name}") for name, text in program.files.items()},
            cwd=Path(fill(program.cwd, known, "params.cwd")) if program.cwd else None,
            env={name: fill(text, known, f"params.env.{name}") for name, text in program.env.items()},
        )

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed unless it ended as it should, with each metric and each claim that the study states."""
        program = read(trial.params)
        if outcome is None:
            return Parsed(FAILED, "the program was not started")
        words = last_words(outcome.stderr)
        said, name = f"; it said: {words}" if words else "", Path(program.argv[0]).name
        if reason := ended_badly(outcome, name, "raise params.timeout", lambda: said):
            return Parsed(FAILED, reason)
        if outcome.exit_code not in program.exit_status:
            wanted = ", ".join(map(str, program.exit_status))
            return Parsed(FAILED, f"{name} exited with status {outcome.exit_code}, expected {wanted}{said}")

        @cache
        def text_of(source: str) -> str:
            return text({"stdout": outcome.stdout, "stderr": outcome.stderr}.get(source, raw / source), source)

        try:
            found = {name: _value(name, one, text_of(one.source)) for name, one in program.metrics.items()}
            claims = [
                claim
                for number, stated in enumerate(program.claims)
                for claim in user_claims.pattern_claims(
                    user_claims.claim_pattern(stated.regex),
                    text_of(stated.source),
                    f"params.claims[{number}].regex",
                    stated.kind,
                )
            ]
        except InputError as error:
            return Parsed(FAILED, f"{error}{said}")
        warnings: list[Warning_] = []
        if not program.claims:  # those of a tool whose output ioassay reads anyway, such as dd
            argv = [str(word) for word in trial.params["argv"]]
            try:
                for one in formats.read(argv, text_of("stdout"), text_of("stderr")):
                    # Its words have places, so that a file which they name is not known by its path.
                    claims.append(replace(one, paths=(), paths_stated=False) if any(map(places, one.paths)) else one)
            except InputError as error:
                what = f"the claims of the program cannot be read: {error}"
                claims, warnings = [], [Warning_("claims-unreadable", what)]
        cpu = {} if outcome.usage is None else {CPU_TIME: outcome.usage.ru_utime + outcome.usage.ru_stime}
        return Parsed(OK, metrics={TIME: outcome.duration_s, **cpu, **found}, claims=claims, warnings=warnings)


# The parameters.

GIVEN = ("target", "size", "raw", "seed", "repetition")
"""Places that every trial has a value for; the first two where the study has a target."""
_OF_TARGET = ("target", "size")


def _duration(text: str | float) -> str | float:
    if units.parse_duration_s(text) <= 0:
        raise ValueError("expected more than 0 s")
    return text


Size = Annotated[int | str, AfterValidator(units.parse_size)]
Duration = Annotated[str | float, AfterValidator(_duration)]
Word = Annotated[str, Field(max_length=100_000)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w.-]*$")]


class ClaimPattern(BaseModel):
    """One pattern of `[[params.claims]]`, with the groups of `--claim-regex`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    regex: str
    source: Annotated[FileName, Field(alias="from")] = "stdout"
    kind: Literal["read", "write", "trim", "mixed", "keys"] = "read"
    """Where the pattern has no group of that name."""


class Program(BaseModel):
    """What the driver knows itself of `[params]`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    argv: Annotated[list[Word], Field(min_length=1)]
    access: Literal["read", "write", "nothing", ""] = ""
    """What it does to the target; '': it writes where a word names the target, and nothing elsewhere."""
    reads: list[Word] = []
    """Files beside the target."""
    writes: dict[Word, Size] = {}
    """Such a file -> what it may grow to."""
    cwd: Word = ""
    env: dict[str, Word] = {}
    files: dict[FileName, Word] = {}
    """Name -> text: written to the raw folder before."""
    timeout: Duration = "10m"
    expected_time: Duration = "10s"
    exit_status: Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(min_length=1)] = [0]
    metrics: dict[str, Reading] = {}
    claims: list[ClaimPattern] = []

    @property
    def effect(self) -> str:
        """`access`, with what its default stands for: READ, WRITE or NOTHING."""
        return self.access or ("write" if "target" in self.places() else "nothing")

    def texts(self) -> Iterator[tuple[str, str]]:
        """Key and text of all that may have places."""
        yield from ((f"params.argv[{number}]", word) for number, word in enumerate(self.argv))
        yield "params.cwd", self.cwd
        for key in ("reads", "writes"):
            yield from ((f"params.{key}", word) for word in getattr(self, key))
        for key in ("env", "files"):
            yield from ((f"params.{key}.{name}", word) for name, word in getattr(self, key).items())

    def places(self) -> set[str]:
        return {name for _, text in self.texts() for name in places(text)}


def read(params: Mapping[str, Any]) -> Program:
    """The parameters; StudyError names the key, the value seen and the value wanted."""
    try:
        program = Program.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        fault = "unknown key" if first["type"] == "extra_forbidden" else error_text(first)
        fault = "is missing; expected the program and its arguments" if first["type"] == "missing" else fault
        raise StudyError(fault, key=f"params.{key}") from None
    for name, reading in program.metrics.items():
        if fault := fault_of_name(name, reading):
            raise StudyError(fault, key=f"params.metrics.'{name}'")
    for number, claim in enumerate(program.claims):
        try:
            user_claims.claim_pattern(claim.regex, "regex")
        except UsageError as error:
            raise StudyError(str(error), key=f"params.claims[{number}]") from None
    used = program.places()
    for name in params:
        if name in GIVEN:
            raise StudyError(f"ioassay gives the place {{{name}}} its value; choose another name", key=f"params.{name}")
        if name not in Program.model_fields and name not in used:
            close = suggestion(name, [*Program.model_fields, *used])
            fault = f"is no parameter of the driver 'command', and no place {{{name}}} uses it"
            raise StudyError(f"{fault}; {close}", key=f"params.{name}")
    return program


def values(params: Mapping[str, Any], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What the places stand for: what the study sets, and what the trial gives."""
    own = {name: value for name, value in params.items() if name not in Program.model_fields}
    return {**own, **given}


# Words of a command line with places to fill in: `of={target}`, `bs={bs:bytes}`. A place is a name in braces, perhaps
# with a unit that a size or a duration is written in as a plain number. Doubled braces stand for themselves, and all
# other text does: `{"a": 1}` and `{print $1}` are no places. No shell is involved.

_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)(?::(\w+))?\}")
_PLACE_UNITS: dict[str, Callable[[Scalar], str]] = {
    "bytes": lambda value: str(units.parse_size(value if isinstance(value, int) else str(value))),
    "seconds": lambda value: f"{units.parse_duration_s(value if isinstance(value, int | float) else str(value)):.15g}",
}


def places(text: str) -> list[str]:
    """The names that a text has places for."""
    return [match[1] for match in _PLACE.finditer(text) if match[1]]


def fill(text: str, values: Mapping[str, Scalar], key: str) -> str:
    """The text with the values in their places; StudyError names `key` where one is missing or has no such unit."""

    def value_of(match: re.Match[str]) -> str:
        name, unit = match[1], match[2]
        if not name:
            return match[0][0]
        if name not in values:
            known = ", ".join(values)
            fault = f"{match[0]} has no value; expected one of {known}, a parameter or a factor of that name"
            raise StudyError(f"{fault}, or {{{match[0]}}} for the text itself", key=key)
        value, place = values[name], f"{match[0]} in {key}"
        if unit is None:
            return str(value).lower() if isinstance(value, bool) else str(value)
        if unit not in _PLACE_UNITS:
            raise StudyError(f"the unit '{unit}' is not known; expected {', '.join(_PLACE_UNITS)}", key=place)
        try:
            return _PLACE_UNITS[unit](value)
        except (ValueError, TypeError) as error:
            raise StudyError(str(error), key=place) from None

    return _PLACE.sub(value_of, text)


def words(texts: Iterable[str], values: Mapping[str, Scalar], key: str) -> list[str]:
    """All words of a command line; a word that is one place without a value is left out: `{flag}` where it is ''."""
    found = [(text, fill(text, values, f"{key}[{number}]")) for number, text in enumerate(texts)]
    return [word for text, word in found if word or not _PLACE.fullmatch(text)]


# Metrics in what a program reports: numbers that a pattern finds in its text, or that a path leads to in its JSON. How
# one number is made of several is stated by the study and never guessed: several matches are refused unless `take`
# says what to do with them.

LARGEST_OUTPUT_BYTES = 1 << 26
"""Of one stream or file: more is no report."""
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
_READERS = {
    "bytes": (number_parsing.size, 1.0),
    "bytes/s": (number_parsing.rate, 1.0),
    "s": (number_parsing.duration, 1.0),
    "ns": (number_parsing.duration, 1e9),
}
"""Unit of a metric -> what reads a printed number with its own unit, and the factor."""
_STEP = re.compile(r"""\.([A-Za-z_][\w-]*)|\[(\d{1,9})\]|\[(\*)\]|\['([^']*)'\]|\["([^"]*)"\]""")


class Reading(BaseModel):
    """One metric of `[params.metrics]`: where its number stands, and what it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    regex: str = ""
    """With a group `value`, or one group of any name; a group `unit` makes it a number with a unit."""
    path: Annotated[str, Field(alias="json")] = ""
    """A JSONPath of names, indices and `[*]`: `$.jobs[0].read.bw_bytes`."""
    source: Annotated[FileName, Field(alias="from")] = "stdout"
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
    """The metric's number. InputError names the metric, what was found and what was wanted."""
    key = f"params.metrics.{name}"
    values = []
    if reading.regex:
        pattern = _compiled(reading.regex)
        groups = pattern.engine.groupindex
        reader, factor = _READERS.get(reading.metric(name).unit, (number_parsing.count, 1.0))
        for match in user_claims.matches(pattern, report, f"{key}.regex"):
            number = (match["value" if "value" in groups else 1] or "").strip()
            if "unit" in groups:
                values.append(reader(number, (match["unit"] or "").strip(), key).value * factor)
            else:
                values.append(decimal(number, key))
    else:
        document = validation.document(report, f"{key}: {reading.source}", "expected one JSON document")
        if not (reached := list(_reached(document, _steps(reading.path)))):
            raise InputError(f"{key}: {reading.path} leads to nothing in the JSON of {reading.source}")
        for value in reached:
            if isinstance(value, str | bool | list | dict) or value is None:
                raise InputError(f"{key}: {reading.path} is {shown(value)}; expected a number")
        values = [real(value, f"{key}: {reading.path}") for value in reached]
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


def _reached(value: Any, steps: Sequence[str | int | None]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    items = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for name in items if steps[0] is None else [steps[0]]:
        if name in items:
            yield from _reached(items[name], steps[1:])
