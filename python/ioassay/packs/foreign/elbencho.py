"""elbencho: what its table claims of each phase that reads or writes, and the rows of its --csvfile.

Written after elbencho's sources (Statistics.cpp, UnitTk.cpp), its description of the file (the page csv-docs of its
repository, version 3) and published results, without an output of our own. The first column of a quantity, up to the
first thread to end, is a part of the second and left out. Each thread has a clock of its own.

In the table whole numbers are rounded down: bytes to MiB, rates to MiB/s (with --base10 to MB/s), latencies to
microseconds. The number of blocks is printed only with --verbose. Phases that create, delete or look at files and
folders claim nothing.

For `ioassay import` each row of the CSV is a phase, and each phase an entry. Columns are found by their names, with
`[first]`, `[last]`, `[min]` or without the brackets of older versions. Of a mix (--rwmixpct) the plain columns are the
writes. Minima and maxima of latency are in the file, percentiles are not.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from ioassay.errors import InputError
from ioassay.formats.number_parsing import duration, lines_with, real, size, whole_number
from ioassay.formats.result_entry import MIB, Entry, ResultFile, quantities, size_level
from ioassay.formats.text_rules import Tool, pattern
from ioassay.records.record import Claim

_ROW = re.compile(r"(?P<phase>[A-Z][A-Z0-9]{1,20})? +(?P<name>[A-Z][A-Za-z0-9 /%]{1,24}?) +: +(?P<values>\S.{0,200})")
_KINDS = {"WRITE": "write", "READ": "read", "RWMIX": "write"}
_ELAPSED = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|ms))?")
"""`85ms`, `12.345s`, `2m3.456s`, `3h25m45s`; milliseconds alone in versions before 2."""
_LATENCY = pattern(r"\[ (?:min=\S{1,20} )?avg=(#)(us|ms|s)?[ ].*")
_RATE_UNITS = {"MiB/s": MIB, "MB/s": 10**6}
_FILE_OPTIONS = re.compile(
    r"--(csvfile|jsonfile|resfile|configfile|treefile|livecsv|livejson|hostsfile|opslog)|-c", re.I
)


def _phases(text: str) -> list[tuple[str, dict[str, str]]]:
    """The name of each phase with its rows: name -> the value of the last thread to end."""
    phases: list[tuple[str, dict[str, str]]] = []
    for _, line in lines_with(text, " : "):
        if row := _ROW.fullmatch(line.rstrip()):
            if row["phase"] and row["name"].startswith("Elapsed"):  # rows of latencies may repeat the name
                phases.append((row["phase"], {}))
            if phases:
                values = row["values"]
                phases[-1][1].setdefault(row["name"], values if values.startswith("[") else values.split()[-1])
    return phases


def _claims(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """The claims of each phase in their order; of a mix the writes and the reads."""
    for phase, rows in _phases(text):
        if phase in _KINDS:
            mixed = any(name.startswith(("MiB read", "IOs read")) for name in rows)
            for kind, side in (("write", " write"), ("read", " read")) if mixed else ((_KINDS[phase], ""),):
                yield _claim(kind, side, phase, rows, words[1:])


def _claim(kind: str, side: str, phase: str, rows: Mapping[str, str], words: Sequence[str]) -> Claim:
    blocks = rows.get(f"IOs{side or ' total'}")
    mib = rows.get(f"MiB{side}" if side else "Total MiB")
    rates = {unit: rows.get(f"{unit}{side}" if side else f"Throughput {unit}") for unit in _RATE_UNITS}
    unit = next((unit for unit, printed in rates.items() if printed), None)
    step = _RATE_UNITS[unit] if unit else 1
    operations = whole_number(blocks, "elbencho's IOs") if blocks else None
    record_bytes = _block_bytes(words)
    volume = whole_number(whole_number(mib, "elbencho's MiB") * MIB, "elbencho's bytes") if mib else None
    if operations is not None and volume is not None:  # MiB are rounded down, blocks are not
        exact = whole_number(operations * (record_bytes or 0), "elbencho's bytes")
        volume = exact if volume <= exact < volume + MIB else None
    latency = _LATENCY.fullmatch(rows.get("IO latency", rows.get("IO lat us", ""))) if not side else None
    mean = duration(latency[1], latency[2] or "us", "elbencho's latency") if latency else None
    return Claim(
        source="elbencho",
        kind=kind,
        test=phase,
        operations=operations,
        bytes=volume,
        seconds=_elapsed_s(rows),
        rate_bytes_per_s=real(rates[unit], "elbencho's rate") * step if unit else None,
        rate_unit_bytes=float(step if operations is not None else max(step, MIB)),
        clock_step_s=1e-3,
        latency_ns={"mean": mean.value * 1e9} if mean else {},
        direct="--direct" in words if words else None,
        paths=tuple(  # words with a slash, other than the files of options
            word
            for last, word in zip(["", *words], words, strict=False)
            if "/" in word and not word.startswith("-") and not _FILE_OPTIONS.fullmatch(last)
        ),
        record_bytes=record_bytes,
        doubts=("several-clocks", *(("whole-microseconds",) if mean else ())),
    )


def _elapsed_s(rows: Mapping[str, str]) -> float | None:
    if printed := rows.get("Elapsed ms"):
        return real(printed, "elbencho's time") / 1e3
    match = _ELAPSED.fullmatch(rows.get("Elapsed time", ""))
    if match is None or not match[0]:
        return None
    hours, minutes, rest, unit = match.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest) * (1e-3 if unit == "ms" else 1.0)


def _block_bytes(words: Sequence[str]) -> int | None:
    for place, word in enumerate(words):
        option = re.fullmatch(r"(?:--block(?:=|$)|-b)(.*)", word)
        printed = (option[1] or "".join(words[place + 1 : place + 2])) if option else ""
        if block := re.fullmatch(r"([0-9]{1,12})([kKmMgG]?)", printed):
            return size(block[1], block[2], "elbencho's block size").rounded
    return None


CLAIMS = Tool(
    "elbencho",
    sign=r"^OPERATION +RESULT TYPE +FIRST DONE +LAST DONE",
    claims=_claims,
    missing="elbencho printed no phase",
    silent=lambda text, words: bool(_phases(text)),
)

_LEVELS = {
    "operation": "operation",
    "hosts": "hosts",
    "threads": "workers",
    "block size": "bs",
    "file size": "file_size",
    "dirs": "dirs",
    "files": "files",
    "direct io": "direct",
    "random": "random",
    "io depth": "iodepth",
    "shared paths": "shared_paths",
    "truncate": "truncate",
    "label": "label",
}
"""What elbencho states of a phase -> the name of the factor."""
_SIZES = {"bs", "file_size"}
_US_NS = 1e3
_ENTRIES = {
    "entry.rate": ("entries/s last", 1.0),
    "entry.time.min": ("ent lat us min", _US_NS),
    "entry.time.mean": ("ent lat us avg", _US_NS),
    "entry.time.max": ("ent lat us max", _US_NS),
}
_REQUESTS = {
    "iops": ("iops last", 1.0),
    "bw": ("mib/s last", float(MIB)),
    "lat.min": ("io lat us min", _US_NS),
    "lat.mean": ("io lat us avg", _US_NS),
    "lat.max": ("io lat us max", _US_NS),
}
_NEEDED = ("operation", "time ms last")
_MOST_COLUMNS = 500


def _is_csv(text: str) -> bool:
    """Whether its first line has the names of elbencho's columns."""
    return set(_NEEDED) <= set(_names(text.lstrip("\ufeff").partition("\n")[0].split(",")[:_MOST_COLUMNS]))


def _names(cells: list[str]) -> list[str]:
    """Without brackets and capitals: `IO lat us [avg]` is `io lat us avg`."""
    return [re.sub(r"[\[\]]", "", cell).strip().lower() for cell in cells]


def _entries(text: str) -> Iterator[Entry]:
    """The phases in their order; the same phase again is a repetition. InputError names the row."""
    try:
        head, *rows = csv.reader(text.lstrip("\ufeff").splitlines())
    except csv.Error as error:
        raise InputError(f"is no CSV that elbencho wrote: {error}") from None
    names = _names(head)
    for number, cells in enumerate(rows, 2):
        if not cells or _names(cells) == names:  # the head again, where two files were put together
            continue
        if len(cells) != len(names):
            raise InputError(f"row {number} has {len(cells)} cells; expected {len(names)}, as its head has")
        try:
            yield _entry(dict(zip(names, cells, strict=True)))
        except InputError as error:
            raise InputError(f"row {number}: {error}") from None


def _entry(row: Mapping[str, str]) -> Entry:
    operation = row["operation"].strip()
    if not operation:
        raise InputError("has no operation; expected READ, WRITE, …")
    metrics, problem = quantities(row, _ENTRIES, "elbencho"), ""
    if direction := next((kind for name, kind in _KINDS.items() if operation.upper().startswith(name)), None):
        requests = {
            f"{way}.{name}": value
            for way, prefix in ((direction, ""), ("read", "rwmix read "))
            for name, value in quantities(
                row, {name: (prefix + cell, factor) for name, (cell, factor) in _REQUESTS.items()}, "elbencho"
            ).items()
        }
        for way in dict.fromkeys(name.partition(".")[0] for name in requests):
            requests |= quantities(row, {f"{way}.runtime": ("time ms last", 1e-3)}, "elbencho")
        metrics |= requests
        problem = "" if requests else "no request was done"
    levels = {factor: text for column, factor in _LEVELS.items() if (text := row.get(column, "").strip())}
    for factor in _SIZES & levels.keys():
        levels[factor] = size_level(whole_number(levels[factor], f"elbencho's {factor}"))
    return Entry(operation, options=levels, metrics=metrics, problem=problem)


RESULTS = ResultFile("elbencho's --csvfile", _is_csv, _entries)
