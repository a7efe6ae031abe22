"""Facts of a run as the page shows them: every trial, and the machines. Nothing is judged here.

How a trial ended, what was run and where its raw output is: command lines and raw files are read from
`trials/<id>/record.json`, because the frames of a Dataset hold numbers only. A record that cannot be read here is shown
as such; loading the records has decided whether that is an error. Of the machines, whatever sections a run has.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ioassay import units
from ioassay.factors import CONDITIONS, level_phrase
from ioassay.narrative import phrases
from ioassay.narrative.finding import NOTHING, Table
from ioassay.narrative.say import sentence
from ioassay.records.record import FAILED, OK, SKIPPED
from ioassay.report import tables
from ioassay.report.tables import Shown
from ioassay.store.dataset import Dataset, Host, section

if TYPE_CHECKING:
    import polars as pl

RAW_NAME = "RAW"
"""Stands for a trial's raw folder in command lines that are alike but for it."""


class Evidence(NamedTuple):
    """One trial's command line ('' for none) and its raw files (name -> link from the page)."""

    command: str = ""
    template: str = ""
    """The command with `RAW` for the trial's raw folder: equal for trials that differ only in their files."""
    files: Mapping[str, str] = MappingProxyType({})
    problem: str = ""


class Trial(NamedTuple):
    """One trial as shown."""

    study: str
    trial: str
    point: str
    repetition: int
    order: int
    status: str
    reason: str
    started: str
    duration: str
    evidence: Evidence


def recorded(records: Dataset) -> pl.DataFrame:
    """Every recorded trial, those too that speeds are not taken from; `apart` says why they are not, else ''."""
    import polars as pl

    parts = {"": records.trials, ", under the witness": records.traced, ", counting system calls": records.counting}
    frames = [part.with_columns(apart=pl.lit(why)) for why, part in parts.items() if part is not None]
    return pl.concat(frames, how="diagonal_relaxed")


class Trials(NamedTuple):
    """All trials in the order they ran, and those of `rows` that were `lost`.

    `counts`: how the trials of each study ended, `absent` those that were planned and have no record. `commands`:
    command line with `RAW` for the raw folder -> number of trials.
    """

    rows: Sequence[Trial]
    lost: Sequence[Trial]
    account: str
    counts: Sequence[Mapping[str, str | int]]
    commands: Mapping[str, int]


def trials(records: Dataset, out: Path) -> Trials:
    """Every recorded trial; links are relative to `out`."""
    factors = {study.name: list(study.levels) for study in records.studies}
    every = recorded(records).sort("order").iter_rows(named=True)
    rows = [_trial(records, factors.get(row["study"], []), row, out) for row in every]
    counts: list[dict[str, str | int]] = []
    for study in factors:
        ended = Counter(row.status for row in rows if row.study == study)
        planned = max(records.planned.get(study, 0), ended.total())
        known = {status: ended[status] for status in (OK, FAILED, SKIPPED)}
        counts.append({"study": study, "planned": planned, **known, "absent": planned - ended.total()})
    number, ends = phrases.count(len(rows), "trial"), Counter(row.status for row in rows)
    account = f"{number}: {', '.join(f'{ends[one]} {one}' for one in (OK, FAILED, SKIPPED) if ends[one])}"
    if ends[OK] == len(rows):
        account = f"{number}, all ok" if rows else "no trial recorded"
    lost = [row for row in rows if row.status != OK]
    commands = Counter(row.evidence.template for row in rows if row.evidence.template)
    return Trials(rows, lost, account, counts, commands)


def _trial(records: Dataset, factors: Sequence[str], row: Mapping[str, Any], out: Path) -> Trial:
    from ioassay.analysis.measurements.cells import label

    point = {name: row[name] for name in factors if row.get(name) is not None}
    purpose = f", {row['search']}" if row.get("search") else ""
    return Trial(
        **{name: row[name] for name in ("study", "trial", "order", "status")},
        point=label(point) + row["apart"] + purpose,
        repetition=row["repetition"] + 1,
        reason=row["reason"] or "",
        started=utc(row["started_unix_s"]) if row["started_unix_s"] else "",
        duration=units.format_duration(row["duration_s"] or 0.0),
        evidence=evidence(records.root, row["trial"], out),
    )


def evidence(root: Path, trial: str, out: Path) -> Evidence:
    """The evidence of one trial; links are relative to `out`, where the page will be."""
    folder = root / "trials" / trial
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Evidence()
    except (OSError, ValueError) as error:
        return Evidence(problem=sentence("figures.record_unreadable", error=error))
    if not isinstance(record, dict):
        return Evidence(problem=sentence("figures.record_no_object"))
    lists = (record.get(key) for key in ("command", "raw"))
    argv, names = ([str(one) for one in value] if isinstance(value, list) else [] for value in lists)
    # Whatever leads to the trial's raw folder: the run's folder may have been moved since.
    raw = re.compile(rf"[^=]*/trials/{re.escape(trial)}/raw(?=/|$)")
    files = {name: link(folder / "raw" / name, out) for name in names}
    return Evidence(_line(argv), _line([raw.sub(RAW_NAME, word) for word in argv]), files)


def _line(argv: Sequence[str]) -> str:
    """As a shell takes it; `&&` stands between the steps of a trial (`roles.Command.of_steps`)."""
    return shlex.join(argv).replace(" '&&' ", " && ")


def link(path: Path, out: Path) -> str:
    """A relative link from a page in `out` to `path`, fit for an attribute."""
    return quote(os.path.relpath(path, out))


def run_folder(root: Path) -> str:
    """The run's folder as a word of a shell: as it was given, but of an absolute path, which tells where people keep
    things, the name alone."""
    return shlex.quote(root.resolve().name if root.is_absolute() else str(root))


_DEEPEST = 4
_FEW_HOSTS = 4
"""Up to this number, a line names them."""
_END_OF_CALENDAR_S = 253402300800
"""The year 10000: gmtime(3) and its kin go no further everywhere."""
_MADE_DRIVES = {"virtual": "a virtual drive", "nvmevirt": "a drive of NVMeVirt"}
_TITLES = {"cpu": "Processor", "ioassay": "ioassay"}


class Fleet(NamedTuple):
    """The hosts that measured: facts that all have alike, and a table of those in which they differ."""

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
        return sentence("figures.beyond_calendar", seconds=f"{unix_s:.6g}")
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def _words(name: str) -> str:
    return name.replace("_", " ")
