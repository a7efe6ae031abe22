"""Several drives as people write them: a table `[[drive]]` for each in a TOML file, with the options of `device serve`.

Paths begin in the current folder, as those of the options do. What numbers may be, the core knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ioassay import validation
from ioassay.errors import InputError, UsageError
from ioassay.packs.virtual_drive import drive_options, fault_plan

_TABLES = "drive"
_SERIAL = "IOASSAY"
"""Of a drive that has none of its own, before its number: hosts tell drives apart by it."""


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _parts(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def _settings(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _text(of) for name, of in value.items()}
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        try:
            return drive_options.settings(value)
        except UsageError as error:
            raise ValueError(str(error)) from None
    return value


def _text(value: Any) -> Any:
    """A value as the command line would have it."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


Size = Annotated[str | int, Field(union_mode="left_to_right")]
Paths = Annotated[list[Path], BeforeValidator(_list)]


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
    faults: Paths = []
    stats_socket: Path | None = Field(None, alias="stats")


_ALIASES = {name: field.alias or name for name, field in Drive.model_fields.items()}


def key_of(option: str) -> str:
    """The key of an option of `device serve`, by the name of its parameter."""
    return _ALIASES.get(option, option)


def read(path: Path) -> list[dict[str, Any]]:
    """The drives of a file, as the core takes them. InputError names the file, the drive and the key."""
    return described(fault_plan.read_tables(path, _TABLES, "drive", "a transport and a size"), f"{path}: ")


def described(tables: Iterable[Mapping[str, Any]], source: str = "") -> list[dict[str, Any]]:
    """As `read`, of tables that are there; `source` begins a message."""
    return [_described(table, f"{source}{_TABLES}[{number}]", number) for number, table in enumerate(tables)]


def _described(table: Mapping[str, Any], place: str, number: int) -> dict[str, Any]:
    table = {name.replace("_", "-"): value for name, value in table.items()}
    try:
        drive = Drive.model_validate(table, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InputError(f"{place}.{_wrong(error)}") from None
    if drive.size is None and drive.backing_file is None and drive.namespaces is None:
        raise InputError(f"{place}.size: is missing; expected one, such as '1GiB', or a file that is there")
    options = drive.model_dump(exclude={"faults", "transports", "serial"})
    ways = [part for text in drive.transports for part in drive_options.transports(text)]
    faults = [fault for file in drive.faults for fault in fault_plan.read(file)]
    serial = drive.serial or f"{_SERIAL}{number + 1}"
    try:
        return drive_options.of_options(ways, serial=serial, faults=faults, **options)
    except UsageError as error:
        raise InputError(f"{place}: {error}") from None


def _wrong(error: ValidationError) -> str:
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return f"{key}: unknown key; {validation.suggestion(key, _ALIASES.values())}"
    if first["type"] == "missing":
        return f"{key}: is missing; expected at least one, such as 'nbd:unix:drive.sock'"
    return f"{key}: {validation.error_text(first)}"
