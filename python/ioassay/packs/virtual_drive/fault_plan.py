"""Faults of a served drive, as people write them: a table `[[fault]]` for each in a TOML file, or NAME=VALUE words.

What each kind does, and what may be said of it: docs/faults.md. What numbers may be, the core knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ioassay import units, validation
from ioassay.errors import InputError, UsageError

_TABLES = "fault"
_LONGEST_BYTES = 2**20
"""Of a file with tables."""
Operation = Literal["read", "write", "trim", "flush"]


def _duration_us(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a duration; expected for example '10ms'")
    return round(units.parse_duration_s(value) * 1e6)


def _size_bytes(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("not a size; expected for example '1MiB'")
    return units.parse_size(value)


def _rate(value: Any) -> int:
    return _size_bytes(value.removesuffix("/s") if isinstance(value, str) else value)


def _operations(value: Any) -> Any:
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


SizeBytes = Annotated[int, BeforeValidator(_size_bytes)]
DurationUs = Annotated[int, BeforeValidator(_duration_us)]


class Fault(BaseModel):
    """One fault, of docs/faults.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal[
        "read-error",
        "write-error",
        "flush-error",
        "latency",
        "throttle",
        "bit-rot",
        "lost-write",
        "torn-write",
        "ignored-flush",
        "stuck",
        "controller-reset",
        "link-loss",
        "worn",
    ]
    op: Annotated[list[Operation], BeforeValidator(_operations)] = []
    namespace: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    offset_bytes: SizeBytes = Field(0, alias="offset")
    length_bytes: SizeBytes | None = Field(None, alias="length")
    after_us: DurationUs = Field(0, alias="after")
    for_us: DurationUs | None = Field(None, alias="for")
    every_us: DurationUs | None = Field(None, alias="every")
    skip: validation.Count = 0
    probability: validation.Amount = 1.0
    scope: Literal["command", "page"] = "command"
    seed: validation.Whole = 1
    count: validation.Count | None = None
    delay_us: DurationUs = Field(0, alias="delay")
    bytes_per_s: Annotated[int, BeforeValidator(_rate)] = Field(0, alias="rate")
    bits: Annotated[int, Field(ge=1, le=4096)] = 1
    down_us: DurationUs = Field(0, alias="down")
    endurance: Annotated[int, Field(ge=0, lt=2**32)] = 0


NAMES = tuple(field.alias or name for name, field in Fault.model_fields.items())
"""What can be said of a fault."""


def read(path: Path) -> list[dict[str, Any]]:
    """The faults of a file, as the core takes them. InputError names the file, the fault and the key."""
    tables = read_tables(path, _TABLES, "fault", "a kind")
    try:
        return [_described(table, f"{_TABLES}[{number}]") for number, table in enumerate(tables)]
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def of_words(words: Iterable[str]) -> list[dict[str, Any]]:
    """The faults of words: each is the name of a file, or NAME=VALUE of one more fault. UsageError, InputError."""
    faults: list[dict[str, Any]] = []
    table: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or "/" in name:
            faults += read(Path(word))
        elif name in table:
            raise UsageError(f"'{word}' sets {name} a second time, after {table[name]}; expected one of them")
        else:
            table[name] = value
    if table:
        numbers = {name: _number(value) for name, value in table.items()}
        try:
            faults.append(_described(numbers, "the fault"))
        except ValueError as error:
            raise UsageError(str(error)) from None
    return faults


def _number(text: str) -> str | int | float:
    """A word as TOML would have it; what has a unit stays a text."""
    for kind in (int, float):
        try:
            return kind(text) if "_" not in text else text
        except ValueError:
            continue
    return text


def _described(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """One fault as the core takes it; ValueError names the key."""
    try:
        return Fault.model_validate(dict(table), by_alias=True, by_name=False).model_dump(exclude_defaults=True)
    except ValidationError as error:
        first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = f"unknown key; {validation.suggestion(key, NAMES)}"
    elif first["type"] == "missing":
        message = "is missing"
    else:
        message = validation.error_text(first)
    raise ValueError(f"{place}.{key}: {message}")


def read_tables(path: Path, name: str, what: str, wanted: str) -> list[dict[str, Any]]:
    """The tables `name` of a file, at least one. InputError names the file.

    `what` is one of them in words, and `wanted` what a table has to have.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a file with {what}s") from None
    if len(text) > _LONGEST_BYTES:
        raise InputError(f"{path}: has more than {units.format_size(_LONGEST_BYTES)}; expected a file with {what}s")
    try:
        written = validation.toml(text)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    for key in written:
        if key != name:
            raise InputError(f"{path}: {key}: unknown key; expected tables [[{name}]]")
    tables = written.get(name)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: has no {what}; expected at least one table [[{name}]] with {wanted}")
    return tables
