"""The host's facts as rows of text, whatever sections a run has: the page shows what was seen, and judges nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay import units
from ioassay.store.schema import Host

_DEEPEST = 4
_END_OF_CALENDAR_S = 253402300800
"""The year 10000: gmtime(3) and its kin go no further everywhere."""
_MADE_DRIVES = {"virtual": "a virtual drive", "nvmevirt": "a drive of NVMeVirt"}
_TITLES = {"cpu": "Processor", "ioassay": "ioassay", "other": "More"}


@dataclass(frozen=True)
class Section:
    """One section of the host's facts."""

    name: str
    rows: Sequence[tuple[str, str]]


def sections(host: Host) -> list[Section]:
    """Sections in their own order; single facts that belong to none come last."""
    found = [
        Section(_title(name), list(_rows(value)))
        for name, value in host.items()
        if isinstance(value, Mapping | list) and value
    ]
    single = [
        (_words(name), shown(name, value)) for name, value in host.items() if not isinstance(value, Mapping | list)
    ]
    return [*found, Section(_title("other"), single)] if single else found


def summary(host: Host, targets: Collection[str] = ()) -> str:
    """The machine in one line, of what is known: processor, kernel, filesystem and drive under test.

    `targets` are the kinds of the studies' targets. A drive that is made for a trial is not the one of their folder.
    """
    cpu, kernel, disk = (_section(host, name) for name in ("cpu", "kernel", "disk"))
    mount, drives = _section(disk, "mount"), disk.get("devices") or [{}]
    drive = drives[-1] if isinstance(drives[-1], Mapping) else {}
    cores = f"{cpu['cores']} cores" if "cores" in cpu else ""
    release = f"{kernel.get('name', 'Linux')} {kernel['release']}" if "release" in kernel else ""
    device = " ".join(str(drive[key]) for key in ("model", "name") if drive.get(key))
    under = f"{mount.get('filesystem', 'disk')} on {device or mount.get('source', 'an unknown device')}" if disk else ""
    if targets and all(kind in _MADE_DRIVES for kind in targets):
        under = " and ".join(sorted({_MADE_DRIVES[kind] for kind in targets}))
    return " · ".join(part for part in (str(cpu.get("model", "")), cores, release, under) if part)


def _section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


def _rows(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Nested facts flattened: `devices 1 queue scheduler`."""
    if depth < _DEEPEST and isinstance(value, Mapping):
        for key, part in value.items():
            yield from _rows(part, f"{path} {_words(str(key))}".strip(), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        for number, part in enumerate(value, start=1):
            name = part.get("name") if isinstance(part, Mapping) else None
            yield from _rows(part, f"{path} {name or number}".strip(), depth + 1)
    else:
        yield path or "value", shown(path, value)


def shown(name: str, value: Any) -> str:
    """One fact in words; sizes and times by their names' units."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(shown(name, part) for part in value) or "none"
    if isinstance(value, int | float):
        words = name.replace("_", " ")
        if words.endswith(" bytes"):
            return f"{units.format_size(value)} ({value:.0f} bytes)"
        if words.endswith("unix s"):
            return utc(value)
    return str(value)


def utc(unix_s: float) -> str:
    """A moment, the same for every reader; one beyond the calendar in seconds."""
    if not 0 <= unix_s < _END_OF_CALENDAR_S:
        return f"{unix_s:.6g} s after the beginning of 1970"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def _title(name: str) -> str:
    words = _words(name)
    return _TITLES.get(words, words[:1].upper() + words[1:])


def _words(name: str) -> str:
    return name.replace("_", " ")
