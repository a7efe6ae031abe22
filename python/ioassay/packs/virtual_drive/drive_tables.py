"""Served drives and their faults as people write them: tables in a TOML file, or NAME=VALUE words for a fault.

A table `[[drive]]` has the options of `device serve`; paths begin in the current folder, as those of the options do.
What each kind of a `[[fault]]` does, and what may be said of it: docs/faults.md. What numbers may be, the core knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ioassay import units, validation
from ioassay.errors import InputError, UsageError
from ioassay.packs.virtual_drive import drive_options

_SERIAL = "IOASSAY"
"""Of a drive that has none of its own, before its number: hosts tell drives apart by it."""
_LONGEST_BYTES = 2**20
"""Of a file with tables."""
_Table = TypeVar("_Table", bound=BaseModel)


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


def _parts(value: Any) -> Any:
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _settings(value: Any) -> Any:
    """Options of the model as the command line would have them."""
    if isinstance(value, Mapping):
        return {
            str(name): ("no", "yes")[of] if isinstance(of, bool) else str(of) if isinstance(of, int | float) else of
            for name, of in value.items()
        }
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        try:
            return drive_options.settings(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    return value


Size = Annotated[str | int, Field(union_mode="left_to_right")]
SizeBytes = Annotated[int, BeforeValidator(_size_bytes)]
DurationUs = Annotated[int, BeforeValidator(_duration_us)]


class Drive(BaseModel):
    """One drive: the options of `ioassay device serve`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
    transports: Annotated[list[str], BeforeValidator(_list)] = Field(alias="transport", min_length=1)
    size: Size | None = None
    namespaces: Annotated[list[Size], BeforeValidator(_parts)] | None = None
    block_size: Size = Field("512", alias="block-size")
    model: str = "thesis"
    drive: str | None = None
    policy: str = "none"
    buffer: Size | None = None
    set_: Annotated[dict[str, str], BeforeValidator(_settings)] = Field({}, alias="set")
    precondition: str | float | None = None
    zones: str | None = None
    backing_file: Path | None = Field(None, alias="file")
    read_only: bool = Field(False, alias="read-only")
    pin: validation.Count | None = None
    keep_awake: bool = Field(False, alias="keep-awake")
    realtime: bool = False
    poll: str = "adaptive"
    calibrate: bool = True
    prefault: bool = False
    serial: str | None = None
    faults: Annotated[list[Path], BeforeValidator(_list)] = []
    stats_socket: Path | None = Field(None, alias="stats")


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
    op: Annotated[list[Literal["read", "write", "trim", "flush"]], BeforeValidator(_parts)] = []
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


def keys(model: type[BaseModel]) -> dict[str, str]:
    """Name of a field -> what people write."""
    return {name: field.alias or name for name, field in model.model_fields.items()}


def read_drives(path: Path) -> list[dict[str, Any]]:
    """The drives of a file, as the core takes them. InputError names the file, the drive and the key."""
    return drives(_read_tables(path, "drive", "a transport and a size"), f"{path}: ")


def drives(tables: Iterable[Mapping[str, Any]], source: str = "") -> list[dict[str, Any]]:
    """As `read_drives`, of tables that are there; `source` begins a message."""
    found = []
    for number, table in enumerate(tables):
        place = f"{source}drive[{number}]"
        dashed = {name.replace("_", "-"): value for name, value in table.items()}
        try:
            drive = _validated(Drive, dashed, place, "; expected at least one, such as 'nbd:unix:drive.sock'")
        except ValueError as error:
            raise InputError(str(error)) from None
        if drive.size is None and drive.backing_file is None and drive.namespaces is None:
            raise InputError(f"{place}.size: is missing; expected one, such as '1GiB', or a file that is there")
        options = drive.model_dump(exclude={"faults", "transports", "serial"})
        ways = [part for text in drive.transports for part in drive_options.transports(text)]
        faults = [fault for file in drive.faults for fault in read_faults(file)]
        serial = drive.serial or f"{_SERIAL}{number + 1}"
        try:
            found.append(drive_options.of_options(ways, serial=serial, faults=faults, **options))
        except UsageError as error:
            raise InputError(f"{place}: {error}") from None
    return found


def read_faults(path: Path) -> list[dict[str, Any]]:
    """The faults of a file, as the core takes them. InputError names the file, the fault and the key."""
    tables = _read_tables(path, "fault", "a kind")
    try:
        return [_fault(table, f"fault[{number}]") for number, table in enumerate(tables)]
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def faults_of_words(words: Iterable[str]) -> list[dict[str, Any]]:
    """The faults of words: each is the name of a file, or NAME=VALUE of one more fault. UsageError, InputError."""
    faults: list[dict[str, Any]] = []
    table: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or "/" in name:
            faults += read_faults(Path(word))
        elif name in table:
            raise UsageError(f"'{word}' sets {name} a second time, after {table[name]}; expected one of them")
        else:
            table[name] = value
    if table:
        try:
            faults.append(_fault({name: _number(value) for name, value in table.items()}, "the fault"))
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


def _fault(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    return _validated(Fault, table, place, "").model_dump(exclude_defaults=True)


def _validated(model: type[_Table], table: Mapping[str, Any], place: str, wanted: str) -> _Table:
    """One table; ValueError names the key. `wanted` says more of a key that is missing."""
    try:
        return model.model_validate(dict(table), by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = f"unknown key; {validation.suggestion(key, keys(model).values())}"
    elif first["type"] == "missing":
        message = f"is missing{wanted}"
    else:
        message = validation.error_text(first)
    raise ValueError(f"{place}.{key}: {message}")


def _read_tables(path: Path, name: str, wanted: str) -> list[dict[str, Any]]:
    """The tables `name` of a file, at least one; `wanted` is what a table has to have. InputError names the file."""
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a file with {name}s") from None
    if len(text) > _LONGEST_BYTES:
        raise InputError(f"{path}: has more than {units.format_size(_LONGEST_BYTES)}; expected a file with {name}s")
    try:
        written = validation.toml(text)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    for key in written:
        if key != name:
            raise InputError(f"{path}: {key}: unknown key; expected tables [[{name}]]")
    tables = written.get(name)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: has no {name}; expected at least one table [[{name}]] with {wanted}")
    return tables
