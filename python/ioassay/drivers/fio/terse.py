"""fio's terse formats (`--minimal`, semicolons), versions 3 to 5, read into the same shape as JSON.

The order of the fields is fio's HOWTO, "Terse output", and `show_thread_status_terse_all` in stat.c. Latencies are in
microseconds there and rates in KiB, so digits are lost that JSON keeps; there are no bins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ioassay.drivers.fio.fio_results import Direction, Job, Latency, Results
from ioassay.errors import InputError
from ioassay.formats.number_parsing import real, whole_number

_HEAD = 5
_DIRECTION = 41
_DIRECTION_V5 = 47
"""Version 5 adds six fields: samples of the bandwidth, and five about IOPS."""
_TAIL = 5 + 7 + 10 + 12
"""Processor, depths, latencies in µs and in ms."""
_LAYOUTS = {3: (_DIRECTION, ("read", "write")), 4: (_DIRECTION, ("read", "write", "trim"))}
_LAYOUTS[5] = (_DIRECTION_V5, ("read", "write", "trim"))


def parse_terse(text: str, source: str = "fio's output") -> Results:
    """The results in a terse text, other lines around them kept as messages; InputError when there is none."""
    lines = list(enumerate(text.split("\n"), 1))
    jobs = [(number, line.rstrip("\r").split(";")) for number, line in lines if _is_result(line)]
    if not jobs:
        raise InputError(f"{source}: has no terse line; wanted one that begins with 3;fio-, 4;fio- or 5;fio-")
    return Results(
        version=jobs[0][1][1],
        jobs=[_job(fields, f"{source}: line {number}") for number, fields in jobs],
        messages="\n".join(line for _, line in lines if line.strip() and not _is_result(line)),
    )


def _is_result(line: str) -> bool:
    return re.match(r"[0-9]{1,9};fio-", line) is not None


def _job(fields: list[str], place: str) -> Job:
    version = int(fields[0])
    if version not in _LAYOUTS:
        raise InputError(f"{place}: terse version {version}; wanted 3, 4 or 5: run fio with --terse-version=5")
    width, names = _LAYOUTS[version]
    least = _HEAD + width * len(names) + _TAIL
    if len(fields) < least:
        raise InputError(f"{place}: {len(fields)} fields of terse version {version}; wanted {least} at least")
    tail = fields[_HEAD + width * len(names) :]
    try:
        directions = {
            name: _direction(name, fields[_HEAD + width * at : _HEAD + width * (at + 1)])
            for at, name in enumerate(names)
        }
        return Job(
            name=fields[2],
            group=whole_number(fields[3], "groupid"),
            error=whole_number(fields[4], "error"),
            directions=directions,
            runtime_s=max(direction.runtime_s for direction in directions.values()),
            cpu={
                "usr": real(tail[0].rstrip("%"), "usr_cpu"),
                "sys": real(tail[1].rstrip("%"), "sys_cpu"),
                "context_switches": real(tail[2], "ctx"),
                "major_faults": real(tail[3], "majf"),
                "minor_faults": real(tail[4], "minf"),
            },
        )
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _direction(name: str, fields: list[str]) -> Direction:
    heads = zip(("KiB", "bandwidth", "IOPS", "runtime"), fields, strict=False)
    kib, _, iops, runtime_ms = (whole_number(field, f"{name} {what}") for what, field in heads)
    runtime_s = runtime_ms / 1e3
    ios = whole_number(round(iops * runtime_s), f"{name} IOPS times runtime")
    latencies = {"slat": fields[4:8], "clat": fields[8:12], "lat": fields[32:36]}
    percentiles = dict(_percentiles(fields[12:32]))
    found = {
        kind: _latency(f"{name} {kind}", four, ios, percentiles if kind == "clat" else {})
        for kind, four in latencies.items()
    }
    present = {kind: latency for kind, latency in found.items() if latency}
    return Direction(ios, whole_number(kib * 1024, f"{name} bytes"), runtime_s, present)


def _latency(what: str, four: list[str], ios: int, percentiles_ns: dict[float, float]) -> Latency | None:
    low, high, mean, deviation = (real(field, what) * 1e3 for field in four)
    return Latency(ios, mean, deviation, low, high, {}, percentiles_ns) if high else None


def _percentiles(fields: list[str]) -> Iterator[tuple[float, float]]:
    """Fields such as `99.900000%=236`; unused ones are `0%=0`."""
    for field in fields:
        share, _, time_us = field.partition("%=")
        if percentage := real(share, "percentile"):
            yield percentage, real(time_us, f"{share}%") * 1e3
