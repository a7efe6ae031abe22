"""fio's terse formats (`--minimal`, semicolons), versions 3 to 5, read into the same shape as JSON.

The order of the fields is fio's HOWTO, "Terse output", and `show_thread_status_terse_all` in stat.c. Latencies are in
microseconds there and rates in KiB, so digits are lost that JSON keeps; there are no bins.
"""

from __future__ import annotations

from collections.abc import Iterator

from ioassay.drivers.fio.output import Direction, Job, Latency, Results
from ioassay.errors import InputError

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
    lines = [line for line in text.splitlines() if line.strip()]
    jobs = [line.split(";") for line in lines if _is_result(line)]
    if not jobs:
        raise InputError(f"{source}: has no terse line; wanted one that begins with 3;fio-, 4;fio- or 5;fio-")
    return Results(
        version=jobs[0][1],
        jobs=[_job(fields, source) for fields in jobs],
        messages="\n".join(line for line in lines if not _is_result(line)),
    )


def _is_result(line: str) -> bool:
    version, _, rest = line.partition(";")
    return version.strip().isdigit() and rest.startswith("fio-")


def _job(fields: list[str], source: str) -> Job:
    version = int(fields[0])
    if version not in _LAYOUTS:
        raise InputError(f"{source}: terse version {version}; wanted 3, 4 or 5: run fio with --terse-version=5")
    width, names = _LAYOUTS[version]
    least = _HEAD + width * len(names) + _TAIL
    if len(fields) < least:
        raise InputError(
            f"{source}: a line of terse version {version} has {len(fields)} fields; wanted {least} at least"
        )
    tail = fields[_HEAD + width * len(names) :]
    try:
        directions = {
            name: _direction(fields[_HEAD + width * place : _HEAD + width * (place + 1)])
            for place, name in enumerate(names)
        }
        return Job(
            name=fields[2],
            group=int(fields[3]),
            error=int(fields[4]),
            directions=directions,
            runtime_s=max(direction.runtime_s for direction in directions.values()),
            cpu={
                "usr": float(tail[0].rstrip("%")),
                "sys": float(tail[1].rstrip("%")),
                "context_switches": float(tail[2]),
                "major_faults": float(tail[3]),
                "minor_faults": float(tail[4]),
            },
        )
    except ValueError as error:
        raise InputError(f"{source}: a terse line is not as fio writes it: {error}") from None


def _direction(fields: list[str]) -> Direction:
    kib, _, iops, runtime_ms = (int(field) for field in fields[:4])
    runtime_s = runtime_ms / 1e3
    ios = round(iops * runtime_s)
    latencies = {"slat": fields[4:8], "clat": fields[8:12], "lat": fields[32:36]}
    percentiles = dict(_percentiles(fields[12:32]))
    found = {kind: _latency(four, ios, percentiles if kind == "clat" else {}) for kind, four in latencies.items()}
    return Direction(ios, kib * 1024, runtime_s, {kind: latency for kind, latency in found.items() if latency})


def _latency(four: list[str], ios: int, percentiles_ns: dict[float, float]) -> Latency | None:
    low, high, mean, deviation = (float(field) * 1e3 for field in four)
    return Latency(ios, mean, deviation, low, high, {}, percentiles_ns) if high else None


def _percentiles(fields: list[str]) -> Iterator[tuple[float, float]]:
    """Fields such as `99.900000%=236`; unused ones are `0%=0`."""
    for field in fields:
        share, _, time_us = field.partition("%=")
        if float(share):
            yield float(share), float(time_us) * 1e3
