"""fio's report for people, read into `fio_results`; it loses digits that JSON keeps.

Rates and volumes have three digits. The number of requests is exact (`issued rwts`), and so are the bytes where all
requests were of one size. Layout: fio's HOWTO, "Interpreting the output"; `show_thread_status_normal` in its stat.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ioassay.errors import InputError
from ioassay.formats.fio_clients import TOTAL
from ioassay.formats.fio_job_options import JobFacts
from ioassay.formats.fio_results import KINDS, Direction, Job, Latency, Results
from ioassay.formats.number_parsing import lines_with, real, step_of, whole_number

_DIRECTIONS = ("read", "write", "trim")
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_UNITS_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}

_JOB = re.compile(r"^(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(\d+)")
_SETTINGS = re.compile(r"^(.+): \(g=(\d+)\): rw=(\w+), bs=(.*?), ioengine=(\w+)")
_BLOCKS = re.compile(r"\(([RWT])\) (\d+)B-(\d+)B")
_RATE = re.compile(
    r"^ +(?P<direction>read|write|trim): IOPS=(?P<iops>[\d.]+)(?P<thousands>[kMG]?), "
    r"BW=(?P<rate>[\d.]+)(?P<rate_unit>[kKMGTP]?i?)B/s \([\d.]+[kKMGTP]?i?B/s\)"
    r"\((?P<volume>[\d.]+)(?P<volume_unit>[kKMGTP]?i?)B/(?P<time>\d+)(?P<time_unit>msec|sec|usec)\)"
)
_ISSUED = re.compile(r"^ +issued rwts: total=(\d+),(\d+),(\d+),(\d+)")
_STATISTIC = r" *([\d.]+)([kMG]?)"
_LATENCY = re.compile(
    r"^ +(lat|clat|slat|sync) \((nsec|usec|msec|sec)\): "
    rf"min={_STATISTIC}, max={_STATISTIC}, avg={_STATISTIC}, stdev={_STATISTIC}"
)
_PERCENTILES = re.compile(r"^ +(lat|clat|slat|sync) percentiles \((nsec|usec|msec|sec)\):")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,20})th=\[ *(\d{1,19})\]")
_MEANING = re.compile(r"=|percentiles \(")


@dataclass
class _Statistics:
    """A line of a latency and the percentiles of it below."""

    line: re.Match[str]
    percentiles_unit: str = ""
    percentiles: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Block:
    """The lines of one job as they come; what its numbers mean is known with the last of them."""

    head: re.Match[str]
    rates: list[re.Match[str]] = field(default_factory=list)
    latencies: list[dict[str, _Statistics]] = field(default_factory=list)
    """Of each rate, what is below it by its kind."""
    below: _Statistics | None = None
    """What the lines to come are percentiles of."""
    issued: re.Match[str] | None = None


def looks_like(text: str) -> bool:
    """Whether it has the report's line of a direction."""
    return ": (groupid=" in text and " BW=" in text


def parse(text: str, source: str) -> tuple[Results, JobFacts]:
    """The results in a report and what it says of its jobs' options; InputError when no job did I/O."""
    blocks: list[_Block] = []
    engines: list[str] = []
    sizes: dict[str, set[int]] = {}
    for _, line in lines_with(text, _MEANING):
        if match := _JOB.match(line):
            blocks.append(_Block(match))
        elif match := _SETTINGS.match(line):
            engines.append(match[5])
            for letter, low, high in _BLOCKS.findall(match[4]):
                own = sizes.setdefault(_DIRECTIONS["RWT".index(letter)], set())
                own.update({whole_number(low, "bs"), whole_number(high, "bs")})
        elif blocks:
            _add(blocks[-1], line)
    if not any(block.rates for block in blocks):
        raise InputError(
            f"{source}: has no line of results, such as '  read: IOPS=…'; run fio with --output-format=json"
        )
    record_bytes = {name: min(own) for name, own in sizes.items() if len(own) == 1}
    facts = JobFacts(engine=engines[0] if len(set(engines)) == 1 else "", record_bytes=record_bytes)
    reports = [block for block in blocks if block.head[1] != TOTAL]  # that is the sum of the reports before it
    return Results("", [_job(block, record_bytes) for block in reports], messages=text), facts


def _add(block: _Block, line: str) -> None:
    if match := _RATE.match(line):
        block.rates.append(match)
        block.latencies.append({})
    elif match := _ISSUED.match(line):
        block.issued = match
    elif block.rates and (match := _LATENCY.match(line)):
        block.latencies[-1].setdefault(match[1], _Statistics(match))
    elif block.rates and (match := _PERCENTILES.match(line)):
        block.below = block.latencies[-1].get(match[1])
        if block.below:
            block.below.percentiles_unit = match[2]
    elif block.below and line.lstrip().startswith("|"):
        block.below.percentiles += _PERCENTILE.findall(line)


def _job(block: _Block, record_bytes: Mapping[str, int]) -> Job:
    counts = [whole_number(count, "issued rwts") for count in block.issued.groups()] if block.issued else []
    issued = dict(zip(_DIRECTIONS, counts, strict=False))
    directions = {
        rate["direction"]: _direction(rate, latencies, issued.get(rate["direction"]), record_bytes)
        for rate, latencies in zip(block.rates, block.latencies, strict=True)
    }
    error = whole_number(block.head[4], "err")
    sync = next((found["sync"] for found in block.latencies if "sync" in found), None)
    return Job(
        name=block.head[1],
        group=whole_number(block.head[2], "groupid"),
        error=error,
        directions=directions,
        runtime_s=max((direction.runtime_s for direction in directions.values()), default=0.0),
        errors=int(bool(error)),
        syncs=counts[3] if counts else None,
        sync_latency=_latency(sync, counts[3]) if sync and counts else None,
    )


def _direction(
    rate: re.Match[str], latencies: Mapping[str, _Statistics], issued: int | None, record_bytes: Mapping[str, int]
) -> Direction:
    runtime_s = real(rate["time"], "run time") * _UNITS_NS[rate["time_unit"]] / 1e9
    iops = real(rate["iops"], "IOPS") * _FACTORS[rate["thousands"]]
    ios = whole_number(round(iops * runtime_s), "IOPS times run time") if issued is None else issued
    record = record_bytes.get(rate["direction"]) if issued is not None else None
    volume = ios * record if record else round(real(rate["volume"], "volume") * _bytes_in(rate["volume_unit"]))
    return Direction(
        ios=ios,
        bytes=whole_number(volume, "volume"),
        runtime_s=runtime_s,
        latencies={kind: _latency(found, ios) for kind, found in latencies.items() if ios and kind in KINDS},
        ios_stated=issued is not None,
        bytes_stated=bool(record),
        rate_bytes_per_s=real(rate["rate"], "BW") * _bytes_in(rate["rate_unit"]),
        rate_step_bytes_per_s=step_of(rate["rate"]) * _bytes_in(rate["rate_unit"]),
        operations_per_s=iops,
        operations_per_s_step=step_of(rate["iops"]) * _FACTORS[rate["thousands"]],
    )


def _bytes_in(unit: str) -> float:
    """`Mi` is 1024²; `M` is 1000², as with kb_base=1000."""
    return float((1024 if unit.endswith("i") else 1000) ** " KMGTP".index(unit.removesuffix("i").upper() or " "))


def _latency(printed: _Statistics, count: int) -> Latency:
    kind, unit, *statistics = printed.line.groups()
    pairs = list(zip(statistics[::2], statistics[1::2], strict=True))
    low, high, mean, deviation = (
        real(number, f"{kind} statistic") * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs
    )
    steps = [step_of(number) * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs[:2]]
    own_ns = _UNITS_NS.get(printed.percentiles_unit, 1.0)
    shares = {real(share, kind): real(value, f"{kind} percentile") * own_ns for share, value in printed.percentiles}
    return Latency(count, mean, deviation, low, high, {}, shares, max(*steps, own_ns))
