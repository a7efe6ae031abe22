"""fio's terse formats (`--minimal`, semicolons), versions 2 to 5, read into `fio_results`.

The order of the fields is fio's HOWTO, "Terse output", and `show_thread_status_terse_all` in stat.c. Latencies are in
microseconds there, and rates and volumes in whole KiB, so digits are lost that JSON keeps; there are no bins and no
number of requests. Version 2 does not say which program wrote it: it is told by its numbers. How many directions a line
has depends on fio's version as well (2.0.8 had no trims in version 2) and on unified_rw_reporting: they end where the
processor's share begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from ioassay.errors import InputError, naming
from ioassay.formats.number_parsing import parts_from, real, text_around, whole_number
from ioassay.packs.fio.claims.fio_results import (
    CPU,
    TOTAL,
    CpuUse,
    Direction,
    Job,
    Latency,
    Results,
    error_number,
    final_reports,
    rate_misfits,
)

_HEAD = 5
_DIRECTION = 41
_DIRECTION_1 = 20
"""Of fio 1, without requests and percentiles."""
_DIRECTION_V5 = 47
"""Version 5 adds six fields: samples of the bandwidth, and five about IOPS."""
_TAIL = 5 + 7 + 10 + 12
"""Processor, depths, latencies in µs and in ms."""
_LAYOUTS: dict[int, tuple[int, tuple[str, ...]]] = dict.fromkeys((2, 4), (_DIRECTION, ("read", "write", "trim")))
_LAYOUTS[3] = (_DIRECTION, ("read", "write"))
_LAYOUTS[5] = (_DIRECTION_V5, ("read", "write", "trim"))
_CLOCKS_DIFFER_S = 0.02
"""Of processes that end together."""
_KIB = 1024
_STEP_NS = 1e3
"""All but means and deviations are whole microseconds."""
_RESULT = re.compile(
    r"(?:^|(?<=[\r\n]))(?:[0-9]{1,9};fio-(?![^;]*;;-1;)|(?:2|3;2[.]0[.0-9]{0,6});[^\r\n]{0,256}?;(?:-?[0-9]{1,20};){7,8}[0-9.]+;[0-9.]+;)[^\r\n]*"
)
"""With group_reporting 3.33 may add a line of no job in no group. 2.0 wrote its version without `fio-`."""


def looks_like(text: str) -> bool:
    """Whether it has a terse line."""
    return _RESULT.search(text) is not None


def parse(text: str, source: str) -> Results:
    """The results in a terse text, other lines around them kept as messages; InputError when there are none."""
    lines = list(_RESULT.finditer(text))
    if not lines:
        raise InputError(f"{source}: has no terse line; expected one that begins with 2;, 3;fio-, 4;fio- or 5;fio-")
    jobs = []
    for line in lines:
        with naming(f"{source}: line {text.count(chr(10), 0, line.start()) + 1}"):
            job = _job(_fields(line[0]))
        if job.name != TOTAL:  # the sum of the lines before it
            jobs.append(job)
    version = _fields(lines[0][0])[1]
    return Results(version, jobs, messages=text_around(text, [line.span() for line in lines]))


def split(text: str) -> list[str]:
    """A part for each report, whose jobs come in the same order; processes of one job follow each other."""
    lines = list(_RESULT.finditer(text))
    names = [_fields(line[0])[2:4] for line in lines]
    first = [place for place, name in enumerate(names) if name == names[0] and (not place or names[place - 1] != name)]
    return parts_from(text, [lines[place].start() for place in first])


def split_by_growth(text: str, source: str) -> list[str]:
    """Also where no name says it: lines that others continue are reports of one run (--status-interval).

    InputError names `source` where they may as well be those of processes.
    """
    if len(parts := split(text)) > 1 or len(jobs := parse(text, source).jobs) < 2:
        return parts
    alike = list(takewhile(lambda job: (job.name, job.group) == (jobs[0].name, jobs[0].group), jobs))
    starts = [line.start() for line in _RESULT.finditer(text)]
    for number in (one for one in range(1, len(alike)) if not len(alike) % one):  # of the lines of a report
        reports = [Results("", alike[at : at + number]) for at in range(0, len(alike), number)]
        if len(final_reports(reports)) == 1:
            return parts_from(text, starts[: len(alike) : number])
        if len(final_reports(reports, _CLOCKS_DIFFER_S)) == 1:
            raise InputError(
                f"{source}: {len(alike)} terse lines of '{jobs[0].name}' are processes that ran together, or reports "
                "of one run with --status-interval; expected times that differ by 0.1 s: use --output-format=json"
            )
    return parts


def _fields(line: str) -> list[str]:
    """With fio's version in the second place, which version 2 of the format leaves out, and the name in the third.

    A name may have semicolons: the first percentile, the 18th field else, says how many.
    """
    fields = line.replace("2;", "2;;", 1).split(";") if line.startswith("2;") else line.split(";")
    name_end = next((place for place, field in enumerate(fields) if "%=" in field), 0) - 14
    return [*fields[:2], ";".join(fields[2:name_end]), *fields[name_end:]] if name_end > 3 else fields


def _job(fields: Sequence[str]) -> Job:
    version = int(fields[0])
    if version not in _LAYOUTS:
        raise InputError(f"terse version {version}; expected 2 to 5: run fio with --terse-version=5")
    width, names = _LAYOUTS[version]
    shares = {place for place, field in enumerate(fields) if field.endswith("%")}
    if version == 2 and _HEAD + 2 * _DIRECTION_1 in shares:
        raise InputError("fio 1 states no number of requests in it; import its report for people (without --minimal)")
    counts = (count for count in range(1, len(names) + 2) if _HEAD + width * count in shares)
    count = next(counts, len(names))
    names = ("mixed",) if count == 1 else (*names, "mixed")[:count]
    least = _HEAD + width * count + _TAIL
    if len(fields) < least:
        raise InputError(f"it is cut off: {len(fields)} fields of terse version {version}; expected {least} at least")
    directions = {name: _direction(name, fields[_HEAD + width * place :][:width]) for place, name in enumerate(names)}
    cpu = fields[_HEAD + width * len(names) :][:5]
    error = error_number(fields[4], "error")
    return Job(
        name=fields[2],
        group=whole_number(fields[3], "groupid"),
        error=error,
        directions=directions,
        runtime_s=max(direction.runtime_s for direction in directions.values()),
        cpu=CpuUse(*(real(printed.rstrip("%"), name) for printed, name in zip(cpu, CPU, strict=True))),
        errors=int(bool(error)),
    )


def _direction(name: str, fields: Sequence[str]) -> Direction:
    heads = zip(("KiB", "bandwidth", "IOPS", "runtime"), fields, strict=False)
    volume_kib, rate_kib_s, iops, runtime_ms = (whole_number(field, f"{name} {what}") for what, field in heads)
    runtime_s = runtime_ms / 1e3
    ios = whole_number(round(iops * runtime_s), f"{name} IOPS times runtime")
    percentiles_ns = {}  # fields such as `99.900000%=236`; unused ones are `0%=0`
    for field in fields[12:32]:
        share, _, time_us = field.partition("%=")
        if percentage := real(share, "percentile"):
            percentiles_ns[percentage] = real(time_us, f"{share}%") * 1e3
    latencies = {
        "slat": _latency(f"{name} slat", fields[4:8], ios, {}),
        "clat": _latency(f"{name} clat", fields[8:12], ios, percentiles_ns),
        "lat": _latency(f"{name} lat", fields[32:36], ios, {}),
    }
    return Direction(
        ios=ios,
        bytes=whole_number(volume_kib * _KIB, f"{name} bytes"),
        runtime_s=runtime_s,
        latencies={kind: latency for kind, latency in latencies.items() if latency},
        ios_stated=False,
        rate_bytes_per_s=float(rate_kib_s * _KIB),
        rate_step_bytes_per_s=float(_KIB),
        operations_per_s=float(iops),
        operations_per_s_step=1.0,
        misfits=rate_misfits("bandwidth", volume_kib, runtime_s, rate_kib_s, 1.0, 0.0, 1.0),  # 2.0 had KB of 1000
    )


def _latency(what: str, four: Sequence[str], ios: int, percentiles_ns: Mapping[float, float]) -> Latency | None:
    low, high, mean, deviation = (real(field, what) * 1e3 for field in four)
    return Latency(ios, mean, deviation, low, high, {}, percentiles_ns, _STEP_NS, 1e-3) if high and ios else None
