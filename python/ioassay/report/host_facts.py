"""The host's facts as rows of text, whatever sections a run has: the page shows what was seen, and judges nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay import units
from ioassay.factors import CONDITIONS, level_phrase
from ioassay.narrative import phrases
from ioassay.narrative.finding import NOTHING, Table
from ioassay.report import tables
from ioassay.report.tables import Shown
from ioassay.store.dataset import Dataset, Host, section

_DEEPEST = 4
_FEW_HOSTS = 4
"""Up to this number, a line names them."""
_END_OF_CALENDAR_S = 253402300800
"""The year 10000: gmtime(3) and its kin go no further everywhere."""
_MADE_DRIVES = {"virtual": "a virtual drive", "nvmevirt": "a drive of NVMeVirt"}
_TITLES = {"cpu": "Processor", "ioassay": "ioassay"}


@dataclass(frozen=True)
class Fleet:
    """The hosts that measured: facts that all have alike, in words, and a table of those in which they differ."""

    names: Sequence[str]
    alike: Sequence[tuple[str, str]]
    table: Shown | None


def fleet(records: Dataset) -> Fleet | None:
    """What is known of several hosts; None of a run on this machine alone."""
    hosts = {host: facts for study in records.studies if study.hosts for host, facts in records.machines(study).items()}
    if not hosts:
        return None
    known = {host: dict(_brief(facts)) for host, facts in hosts.items()}
    names = list(dict.fromkeys(name for own in known.values() for name in own))
    differ = [name for name in names if len({own.get(name, NOTHING) for own in known.values()}) > 1]
    first = next(iter(known.values()))
    alike = [(name, first[name]) for name in names if name not in differ]
    rows = [[host, *(own.get(name, NOTHING) for name in differ)] for host, own in known.items()]
    return Fleet(list(hosts), alike, tables.shown(Table(["Host", *differ], rows)) if differ else None)


def _brief(host: Host) -> Iterator[tuple[str, str]]:
    """The facts that decide what a host can do, by name."""
    cpu, memory, kernel, disk = (section(host, name) for name in ("cpu", "memory", "kernel", "disk"))
    machine, clock = section(host, "virtualisation"), section(host, "clock")
    drives = [drive for drive in disk.get("devices") or () if isinstance(drive, Mapping)]
    total = memory.get("total_bytes")
    facts = {
        "Processor": cpu.get("model"),
        "Processors": cpu.get("cpus"),
        "Governor": ", ".join(sorted(section(cpu, "governors"))),
        "Memory": units.format_size(total) if isinstance(total, int) else None,
        "Virtual machine": machine.get("vm") or machine.get("container"),
        "Kernel": kernel.get("release"),
        "Clock": clock.get("source"),
        "File system": section(disk, "mount").get("filesystem"),
        "Drive": drives[-1].get("model") or drives[-1].get("name") if drives else None,
        **section(host, "tools"),
    }
    return ((name, str(value)) for name, value in facts.items() if value not in (None, ""))


def sections(host: Host) -> dict[str, list[tuple[str, str]]]:
    """Sections in their own order; single facts that belong to none come last. Those of several hosts are `fleet`."""
    found, single = dict[str, list[tuple[str, str]]](), list[tuple[str, str]]()
    for name, value in host.items():
        words = _words(name)
        if not isinstance(value, Mapping | list):
            single.append((words, shown(name, value)))
        elif value and name != "hosts":
            found[_TITLES.get(words, words[:1].upper() + words[1:])] = list(_rows(value))
    return found | ({"More": single} if single else {})


def machines(records: Dataset) -> str:
    """Who measured, in one line."""
    targets = {study.target.kind for study in records.studies}
    on_hosts = next((study for study in records.studies if study.hosts), None)
    if on_hosts is None:
        return summary(records.host, targets)
    alike, number = records.machine(on_hosts).copy(), len(on_hosts.hosts)
    if "devices" not in section(alike, "disk"):  # it is said of the drive as a whole
        alike.pop("disk", None)
    named = phrases.capital(phrases.hosts(on_hosts.hosts)) if number <= _FEW_HOSTS else f"{number} hosts"
    return " · ".join(filter(None, (named, summary(alike, targets))))


def setup(records: Dataset) -> str:
    """What was measured, and how: the target, the tool, and its parameters that all studies have alike."""
    if not records.studies or not all(records.is_measured(study) for study in records.studies):
        return ""
    parts: list[list[str]] = []
    for study in records.studies:
        target, words = study.target, [study.driver.replace("_", "-")]
        size = getattr(target, "size", None) if "target.size" not in study.levels else None
        where = getattr(target, "path", None) if "target.path" not in study.levels else None
        of = f" of {units.format_size(int(str(size))) if str(size).isdigit() else size}" if size else ""
        for name in CONDITIONS:
            if name in study.params and name not in study.levels:
                # As a level: `direct`, `4 KiB`; one that only has a name and a value by its value.
                value = study.params[name]
                switched = name == "direct" and str(value) in ("0", "1")
                words.append(level_phrase(name, str(value) == "1" if switched else value).rpartition(" = ")[2])
        parts.append([*([f"{target.kind} {where}{of}"] if where else []), ", ".join(words)])
    return " · ".join(part for part in parts[0] if all(part in other for other in parts[1:]))


def summary(host: Host, targets: Collection[str] = ()) -> str:
    """The machine in one line, of what is known: processor, kernel, filesystem and drive under test.

    `targets` are the kinds of the studies' targets. A drive that is made for a trial is not the one of their folder.
    """
    cpu, kernel, disk = (section(host, name) for name in ("cpu", "kernel", "disk"))
    mount, drives = section(disk, "mount"), disk.get("devices") or [{}]
    drive = drives[-1] if isinstance(drives[-1], Mapping) else {}
    cores = f"{cpu['cores']} cores" if "cores" in cpu else ""
    release = f"{kernel.get('name', 'Linux')} {kernel['release']}" if "release" in kernel else ""
    device = " ".join(str(drive[key]) for key in ("model", "name") if drive.get(key))
    if device and isinstance(drive.get("size_bytes"), int):
        device += f" ({units.format_size(drive['size_bytes'])})"
    under = f"{mount.get('filesystem', 'disk')} on {device or mount.get('source', 'an unknown device')}" if disk else ""
    if targets and all(kind in _MADE_DRIVES for kind in targets):
        under = " and ".join(sorted({_MADE_DRIVES[kind] for kind in targets}))
    return " · ".join(part for part in (str(cpu.get("model", "")), cores, release, under) if part)


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
        if _words(name).endswith(" bytes"):
            return f"{units.format_size(value)} ({value:.0f} bytes)"
        if _words(name).endswith("unix s"):
            return utc(value)
    return str(value)


def utc(unix_s: float) -> str:
    """A moment, the same for every reader; one beyond the calendar in seconds."""
    if not 0 <= unix_s < _END_OF_CALENDAR_S:
        return f"{unix_s:.6g} s after the beginning of 1970"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def _words(name: str) -> str:
    return name.replace("_", " ")
