"""What people write about a drive to be served, as the core takes it.

What the model is made of are a simulation's options, by the same names: `read_us`, `elements`, `policy`, `buffer`.
What numbers may be, the core knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ioassay import _core, units
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.packs.virtual_drive import control
from ioassay.simulation import drive_files
from ioassay.simulation import options as simulation
from ioassay.simulation.drive_files import drive_options

TRANSPORTS = ("nbd", "nvme-tcp", "fuse", "vfio-user")
_TLS = ",tls="
"""What follows the place of an NBD server is a folder with certificates."""
_SOCKET_NAME = "cntrl"
"""The socket that the core makes in a folder, where SPDK's clients of vfio-user look for it."""
POLLS = ("adaptive", "always")
_RENAMED = {"pages": "bytes"}
"""Key of a simulation -> key of a served drive: its buffer is given in bytes."""
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
    model = served.get("model", "thesis")
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
    """Whether a drive in that state is none that is new."""
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
    controller: dict[str, Any] = {}
    buffer: dict[str, Any] = {}
    groups = {simulation.DRIVE: geometry, simulation.CONTROLLER: controller, simulation.BUFFER: buffer}
    for name, value in simulation.expanded(given).items():
        option = simulation.known(name)
        if option.group not in groups or option.name in _OF_RESHAPE:
            raise UsageError(f"'{name}' says how a trace is simulated; a drive that is served knows no {name}")
        key = _RENAMED.get(option.key, option.key)
        what = simulation.read(option, value)
        groups[option.group].update(what if isinstance(what, dict) else {key: what})
    if controller:
        geometry[simulation.CONTROLLER] = controller
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
    if length_bytes > control.LONGEST_PATH:
        wanted = f"at most {control.LONGEST_PATH}, as Unix sockets have; choose a shorter one"
        raise UsageError(f"{what}: the path {path.absolute()} has {length_bytes} bytes, expected {wanted}")
    return _place(what, path)


def _place(what: str, path: Path) -> Path:
    """Absolute. What is to be made there needs a folder."""
    path = path.absolute()
    if not path.parent.is_dir():
        raise UsageError(f"{what}: {path.parent} is no folder; make it, or choose another place")
    return path


_CONVERTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
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
