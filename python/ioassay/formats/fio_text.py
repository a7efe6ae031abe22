"""fio's terse lines and its report for people, which lose digits that JSON keeps.

Terse: rates and volumes are whole KiB, the number of requests is not told. Report: rates have three digits; the number
of requests is exact (`issued rwts`), and the bytes are where all requests were of one size. Layouts: fio's HOWTO,
"Terse output" and "Interpreting the output"; `show_thread_status_normal` in its stat.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ioassay.errors import InputError
from ioassay.formats.number_parsing import lines_with, real, step_of, whole_number
from ioassay.records.record import Claim

_KINDS = ("read", "write", "trim")
_CLOCK_STEP_S = 1e-3
_PREFIXES = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_UNITS_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}

# Terse versions: fields of one direction, and which directions there are.
_LAYOUTS = {2: (41, _KINDS[:2]), 3: (41, _KINDS[:2]), 4: (41, _KINDS), 5: (47, _KINDS)}
_HEAD = 5

_JOB = re.compile(r"^(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(\d+)")
_SETTINGS = re.compile(r"^(.+): \(g=(\d+)\): rw=(\w+), bs=(.*?), ioengine=(\w+)")
_BLOCKS = re.compile(r"\(([RWT])\) (\d+)B-(\d+)B")
_RATE = re.compile(
    r"^ +(read|write|trim): IOPS=[\d.]+[kMG]?, BW=([\d.]+)([KMGTP]?)i?B/s "
    r"\([\d.]+[kKMGTP]?i?B/s\)\(([\d.]+)([KMGTP]?)i?B/(\d+)(msec|sec|usec)\)"
)
_ISSUED = re.compile(r"^ +issued rwts: total=(\d+),(\d+),(\d+),(\d+)")
_LATENCY = re.compile(r"^ +(lat|clat|slat) \((nsec|usec|msec|sec)\): min=.*?avg= *([\d.]+)(k?)")
_TERSE = re.compile(r"^(\d+);(fio-[^;]*);")


def looks_like(text: str) -> bool:
    """Whether it has terse lines, or the report's line of a direction."""
    return re.search(r"(?:^|[\r\n])[2-5];fio-", text) is not None or (": (groupid=" in text and " BW=" in text)


def read(text: str) -> list[Claim]:
    """The claims in either format; InputError when there are none."""
    if claims := _terse(text):
        return claims
    jobs, settings = _jobs(text)
    parts = [part for job in jobs for part in job.parts]
    if not parts:
        shown = text.strip()[:100].splitlines()[0] if text.strip() else ""
        raise InputError(
            f"fio's output has no results (it begins with {shown!r}): "
            "it refused, was ended, or wrote another format; run it with --output-format=json"
        )
    return [claim for kind in _KINDS if (claim := _merged(kind, jobs, settings)) is not None]


def _terse(text: str) -> list[Claim]:
    lines = [line.split(";") for _, line in lines_with(text, ";fio-") if _TERSE.match(line)]
    parts: dict[str, list[tuple[str, int, int, float]]] = {}
    for fields in lines:
        width, kinds = _layout(fields)
        for place, kind in enumerate(kinds):
            volume, rate, _, time_ms = (
                whole_number(number, f"terse field {place}") for number in fields[_HEAD + width * place :][:4]
            )
            if volume:
                parts.setdefault(kind, []).append((fields[2], volume, rate, float(time_ms)))
    return [
        _terse_claim(kind, parts[kind], sum(int(bool(whole_number(f[4], "error"))) for f in lines)) for kind in parts
    ]


def _layout(fields: Sequence[str]) -> tuple[int, Sequence[str]]:
    version = int(fields[0][:9])
    if version not in _LAYOUTS:
        raise InputError(f"fio's terse version {version} is not known; wanted 2 to 5: run it with --terse-version=5")
    width, kinds = _LAYOUTS[version]
    if len(fields) < _HEAD + width * len(kinds):
        raise InputError(f"fio's terse line is cut off: {len(fields)} fields; wanted {_HEAD + width * len(kinds)}")
    return width, kinds


def _terse_claim(kind: str, parts: Sequence[tuple[str, int, int, float]], errors: int) -> Claim:
    """Groups that ran one after the other look like jobs that ran together: the longest time counts."""
    seconds = max(time_ms for *_, time_ms in parts) / 1e3
    volume = sum(kib for _, kib, _, _ in parts) * 1024
    alone = parts[0][2] * 1024.0 if len(parts) == 1 else None
    return Claim(
        source="fio",
        kind=kind,
        test=", ".join(dict.fromkeys(name for name, *_ in parts)),
        bytes=volume,
        seconds=seconds,
        rate_bytes_per_s=alone if alone is not None else (volume / seconds if seconds else None),
        rate_unit_bytes=1024.0,
        clock_step_s=_CLOCK_STEP_S,
        errors=errors,
    )


@dataclass(frozen=True)
class _Part:
    """One direction of one job of the report."""

    kind: str
    rate: float
    step: float
    seconds: float
    latency_ns: dict[str, float] = field(default_factory=dict)


@dataclass
class _Job:
    name: str
    group: int
    error: int
    parts: list[_Part] = field(default_factory=list)
    issued: dict[str, int] = field(default_factory=dict)
    syncs: int = 0


@dataclass(frozen=True)
class _Settings:
    engines: Sequence[str] = ()
    blocks: dict[str, set[int]] = field(default_factory=dict)
    unreported: Sequence[str] = ()


def _jobs(text: str) -> tuple[list[_Job], _Settings]:
    """Lines in their order; what is not of the report is left out."""
    jobs: list[_Job] = []
    engines: list[str] = []
    blocks: dict[str, set[int]] = {}
    start = max(0, text.find(": (g="))
    for _, line in lines_with(text, "=", max(0, text.rfind("\n", 0, start))):
        if match := _JOB.match(line):
            jobs.append(_Job(match[1], whole_number(match[2], "groupid"), whole_number(match[4], "err")))
        elif match := _SETTINGS.match(line):
            engines.append(match[5])
            for letter, low, high in _BLOCKS.findall(match[4]):
                kind = _KINDS["RWT".index(letter)]
                blocks.setdefault(kind, set()).update({whole_number(low, "bs"), whole_number(high, "bs")})
        elif jobs:
            _job_line(jobs[-1], line)
    laid_out = ["layout"] if "Laying out IO file" in text else []
    return jobs, _Settings(list(dict.fromkeys(engines)), blocks, laid_out)


def _job_line(job: _Job, line: str) -> None:
    if match := _RATE.match(line):
        factor = float(1024 ** _PREFIXES[match[3]])
        seconds = real(match[6], "run time") * _UNITS_NS[match[7]] / 1e9
        job.parts.append(_Part(match[1], real(match[2], "BW") * factor, step_of(match[2]) * factor, seconds))
    elif match := _ISSUED.match(line):
        reads, writes, trims, job.syncs = (whole_number(match[place], "issued rwts") for place in range(1, 5))
        job.issued = dict(zip(_KINDS, (reads, writes, trims), strict=True))
    elif job.parts and (match := _LATENCY.match(line)):
        name = "mean" if match[1] == "lat" else f"{match[1]}.mean"
        value_ns = real(match[3], "avg") * _UNITS_NS[match[2]] * (1000 if match[4] else 1)
        job.parts[-1].latency_ns.setdefault(name, value_ns)


def _merged(kind: str, jobs: Sequence[_Job], settings: _Settings) -> Claim | None:
    found = [(job, part) for job in jobs for part in job.parts if part.kind == kind]
    if not found:
        return None
    operations = sum(job.issued.get(kind, 0) for job, _ in found) if all(job.issued for job, _ in found) else None
    sizes = settings.blocks.get(kind, set())
    record = next(iter(sizes)) if len(sizes) == 1 else None
    alone = found[0][1] if len(found) == 1 else None
    longest: dict[int, float] = {}
    for job, part in found:
        longest[job.group] = max(longest.get(job.group, 0.0), part.seconds)
    wrote = any(part.kind == "write" for job in jobs for part in job.parts)
    return Claim(
        source="fio",
        kind=kind,
        test=", ".join(dict.fromkeys(job.name for job, _ in found)),
        operations=operations,
        bytes=operations * record if operations is not None and record else None,
        seconds=sum(longest.values()),
        rate_bytes_per_s=alone.rate if alone else None,
        rate_unit_bytes=alone.step if alone else 1.0,
        clock_step_s=_CLOCK_STEP_S,
        latency_ns=alone.latency_ns if alone else {},
        syncs=sum(job.syncs for job in jobs) if kind == ("write" if wrote else "read") else None,
        errors=sum(bool(job.error) for job in jobs),
        engine=settings.engines[0] if len(settings.engines) == 1 else "",
        record_bytes=record,
        unreported=settings.unreported,
    )
