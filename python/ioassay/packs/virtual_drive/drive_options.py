"""What people write about a drive to be served, as the core takes it: options, or tables of drives and of their faults.

What the model is made of are a simulation's options, by the same names: `read_us`, `elements`, `policy`, `buffer`. A
table `[[drive]]` of a TOML file has the options of `device serve`; paths begin in the current folder, as those of the
options do. What each kind of a `[[fault]]` does, and what may be said of it: docs/faults.md. A fault may be NAME=VALUE
words as well. What numbers may be, the core knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ioassay import _core, units, validation
from ioassay.errors import InputError, UsageError
from ioassay.hints import nearest, suggestion
from ioassay.packs.virtual_drive.serving import LONGEST_PATH
from ioassay.simulation import drive_files
from ioassay.simulation import options as simulation
from ioassay.simulation.drive_files import drive_options

TRANSPORTS = ("nbd", "nvme-tcp", "fuse", "vfio-user")
_TLS = ",tls="
"""What follows the place of an NBD server is a folder with certificates."""
_SOCKET_NAME = "cntrl"
"""The socket that the core makes in a folder, where SPDK's clients of vfio-user look for it."""
POLLS = ("adaptive", "always")
_OF_RESHAPE = ("mode",)
STATES = {"none": 0.0, "full": 0.0, "steady": 1.0}
"""Word for a state of the drive -> share of it that is overwritten at random to bring it there. A model begins with all
its pages written once, so that `full` takes nothing but that nobody trims it."""
_ZONE_SIZES = {"capacity": "capacity_bytes", "append": "append_bytes"}
_ZONE_LIMITS = ("open", "active")
"""Keys of zones behind their size: sizes with their key in the core, and numbers of zones."""
_MOST_LIMIT = 2**32 - 1
_MOST_BYTES = 2**63 - 1
_SERIAL_BYTES = 20
"""Room for it in an answer to Identify (NVM Express Base Specification, Identify Controller)."""
SERIAL = "IOASSAY1"
"""The serial number of a drive that was given none (`Options::default` in crates/device/src/server/options.rs)."""


def described(model_options: Mapping[str, Any], **served: Any) -> dict[str, Any]:
    """The core's description of a drive. `served` are its own options (`size`, `transports`, `backing_file`, …); those
    that are None are left out. Raises UsageError.
    """
    told: dict[str, Any] = {}
    for name, value in served.items():
        if value is not None:
            key, convert = _CONVERTED.get(name, (name, lambda value: value))
            told[key] = convert(value)
    if told.get("model", "none") not in (models := [name for name, _ in _core.device_models()]):
        raise UsageError(f"model is {told['model']}, expected {' or '.join(models)}{nearest(told['model'], models)}")
    if told.get("poll", POLLS[0]) not in POLLS:
        raise UsageError(f"poll is '{told['poll']}', expected {' or '.join(POLLS)}{nearest(told['poll'], POLLS)}")
    serial = str(told.get("serial", "x"))
    if not (serial.isascii() and serial.isprintable() and 0 < len(serial) <= _SERIAL_BYTES):
        raise UsageError(f"serial is '{serial}', expected 1 to {_SERIAL_BYTES} printable characters of ASCII")
    told["geometry"], told["buffer"] = _model(model_options)
    return told


def model_name(name: str) -> str:
    """The name of a model today: `thesis` is the former one of `reference`."""
    return "reference" if name == "thesis" else name


def of_options(
    transports: Sequence[str],
    *,
    drive: str | Path | None = None,
    policy: str = simulation.NONE,
    buffer: str | int | None = None,
    set_: Mapping[str, str] | None = None,
    **served: Any,
) -> dict[str, Any]:
    """The core's description of a drive by the options of `device serve`. Raises UsageError.

    Those of its model are together in `set_`, except for the write buffer and the `drive` whose options it takes.
    """
    of_model: dict[str, Any] = {"policy": policy, **({"buffer": buffer} if buffer else {})}
    of_model = {**of_drive(drive), **together(of_model, set_ or {})}
    model = served.get("model", "reference")
    if useless := unused(model, of_model, served.get("precondition")) or unbuffered(of_model):
        raise UsageError(useless)
    return described(of_model, transports=list(transports), profile=profile(drive), **served)


def of_drive(drive: str | Path | None) -> dict[str, Any]:
    """The options of a drive by its name or file; the size that is served decides on the number of its blocks.

    Raises UsageError.
    """
    return {name: value for name, value in drive_options(drive).items() if name != "blocks"}


def zones(text: str) -> dict[str, int]:
    """`64MiB,capacity=48MiB,open=14,active=14,append=128KiB` -> the zones that the core makes. Raises UsageError.

    What sizes may be, the core knows.
    """
    size, *words = text.split(",")
    found = {"zone_bytes": _size("zones", size)}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in (*_ZONE_SIZES, *_ZONE_LIMITS):
            wanted = "SIZE,capacity=SIZE,open=N,active=N,append=SIZE, of which the first is enough"
            raise UsageError(f"zones is '{text}', expected {wanted}")
        key = _ZONE_SIZES.get(name, name)
        if key in found:
            raise UsageError(f"zones: {name} is given twice")
        found[key] = _size(f"zones: {name}", value) if name in _ZONE_SIZES else _limit(name, value)
    return found


def _limit(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value[:20]) <= _MOST_LIMIT):
        raise UsageError(f"zones: {name} is '{value}', expected a number of zones")
    return int(value)


def profile(drive: str | Path | None) -> str | None:
    """The name by which a served drive tells hosts whose options its model has. Errors as of `drive_files.load`."""
    return None if drive is None else drive_files.load(drive).name


def preconditioned(state: float | str) -> float:
    """The share of the drive that is overwritten first: one of `STATES`, or the share itself. Raises UsageError."""
    if isinstance(state, str) and state in STATES:
        return STATES[state]
    try:
        share = float(state)
    except ValueError:
        share = -1.0
    if isinstance(state, bool) or not 0 <= share <= 1:
        wanted = f"{', '.join(STATES)}, or a share up to 1"
        raise UsageError(f"precondition is '{state}', expected {wanted}{nearest(state, STATES)}")
    return share


def is_used(state: float | str) -> bool:
    return state == "full" or preconditioned(state) > 0


def unused(model: str, of_model: Mapping[str, Any], precondition: float | str | None = None) -> str:
    """What was asked for and has no effect on such a drive, with the reason; empty when nothing."""
    if model != "none":
        return ""
    asked = [name for name, value in of_model.items() if (name, str(value)) != ("policy", "none")]
    asked += ["precondition"] if precondition is not None and is_used(precondition) else []
    return f"{', '.join(asked)}: not used by model 'none', which answers at once" if asked else ""


def unbuffered(of_model: Mapping[str, Any]) -> str:
    """What was asked for of a write buffer that is not there; empty when nothing."""
    if str(of_model.get("policy", simulation.NONE)) != simulation.NONE:
        return ""
    asked = [name for name in of_model if name != "policy" and simulation.known(name).group == simulation.BUFFER]
    return f"{', '.join(asked)}: not used by policy 'none', which has no write buffer" if asked else ""


def together(options: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    """The model's options, of which the command line has some by name. UsageError for one that is given twice."""
    for name in settings.keys() & options.keys():
        if (name, options[name]) != ("policy", simulation.NONE):
            raise UsageError(f"{name} is given twice, as --{name} {options[name]} and --set {name}={settings[name]}")
    return {**options, **settings}


def transports(text: str) -> list[str]:
    """`nbd:unix:PATH,nvme-tcp:127.0.0.1:4420` -> its parts. A comma belongs to a part unless a transport follows."""
    parts: list[str] = []
    for word in text.split(","):
        known = any(word == name or word.startswith(f"{name}:") for name in TRANSPORTS)
        if known or not parts:
            parts.append(word)
        else:
            parts[-1] += f",{word}"
    return parts


def settings(words: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` words as options of the model; UsageError for a word without '=', or a name that is there twice."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"'{word}' sets nothing; expected NAME=VALUE, such as read_us=100")
        name = name.strip().replace("-", "_")
        if name in found:
            raise UsageError(f"'{word}' sets {name} a second time, after {found[name]}; expected one of them")
        found[name] = value.strip()
    return found


def _model(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    geometry: dict[str, Any] = {}
    buffer: dict[str, Any] = {}
    groups = {simulation.DRIVE: geometry, simulation.CONTROLLER: geometry, simulation.BUFFER: buffer}
    for name, value in simulation.expanded(given).items():
        option = simulation.known(name)
        if option.group not in groups or name in _OF_RESHAPE:
            raise UsageError(f"'{name}' says how a trace is simulated; a drive that is served knows no {name}")
        groups[option.group][name] = simulation.read(option, value)
    return geometry, buffer


def _size(name: str, value: Any) -> int:
    try:
        size_bytes = units.parse_size(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if size_bytes > _MOST_BYTES:
        raise UsageError(f"{name} is {value}, expected less than 8 EiB")
    return size_bytes


def _transport(text: str) -> str:
    """Paths are absolute, so that clients find them from wherever they are."""
    name, _, place = text.partition(":")
    if name not in TRANSPORTS or place in ("", "unix:", "tcp:"):
        wanted = "nbd:unix:PATH, nbd:tcp:ADDRESS:PORT, nvme-tcp:ADDRESS:PORT, fuse:PATH or vfio-user:PATH"
        raise UsageError(f"transport is '{text}', expected {wanted}{nearest(name, TRANSPORTS)}")
    if name == "fuse":
        return f"fuse:{_place(text, Path(place))}"
    if name == "vfio-user":
        path = Path(place)
        return f"vfio-user:{_socket(text, path / _SOCKET_NAME if path.is_dir() else path)}"
    place, tls, folder = place.partition(_TLS) if name == "nbd" else (place, "", "")
    if place.startswith("unix:"):
        place = f"unix:{_socket(text, Path(place.removeprefix('unix:')))}"
    return f"{name}:{place}{tls}{folder}"


def _socket(what: str, path: Path) -> Path:
    length_bytes = len(os.fsencode(path.absolute()))
    if length_bytes > LONGEST_PATH:
        wanted = f"at most {LONGEST_PATH}, as Unix sockets have; choose a shorter one"
        raise UsageError(f"{what}: the path {path.absolute()} has {length_bytes} bytes, expected {wanted}")
    return _place(what, path)


def _place(what: str, path: Path) -> Path:
    """Absolute. What is to be made there needs a folder."""
    path = path.absolute()
    if not path.parent.is_dir():
        raise UsageError(f"{what}: {path.parent} is no folder; make it, or choose another place")
    return path


_CONVERTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "model": ("model", model_name),
    "size": ("size_bytes", partial(_size, "size")),
    "block_size": ("block_bytes", partial(_size, "block_size")),
    "namespaces": ("namespaces_bytes", lambda sizes: [_size("namespaces", size) for size in sizes]),
    "precondition": ("precondition", preconditioned),
    "zones": ("zones", zones),
    "transports": ("transports", lambda texts: [_transport(text) for text in texts]),
    "backing_file": ("backing_file", lambda path: str(_place("backing file", Path(path)))),
    "stats_socket": ("stats_socket", lambda path: str(_socket("stats", Path(path)))),
}
"""Option of a served drive -> its key in the core, and what makes the core's value of what people write."""


# Tables of drives and faults

_SERIAL_PREFIX = "IOASSAY"
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
            return settings(value)
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
    model: str = "reference"
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
        ways = [part for text in drive.transports for part in transports(text)]
        faults = [fault for file in drive.faults for fault in read_faults(file)]
        serial = drive.serial or f"{_SERIAL_PREFIX}{number + 1}"
        try:
            found.append(of_options(ways, serial=serial, faults=faults, **options))
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
        message = f"unknown key; {suggestion(key, keys(model).values())}"
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
