"""fio's report for people, read into `fio_results`; it loses digits that JSON keeps.

Rates and volumes have three digits. The number of requests is exact (`issued rwts`), and so are the bytes where all
requests were of one size. Layout: fio's HOWTO, "Interpreting the output"; `show_thread_status_normal` in its stat.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ioassay.errors import InputError
from ioassay.formats.number_parsing import (
    Quantity,
    equal,
    lines_with,
    parts_from,
    quotient,
    real,
    step_of,
    whole_number,
)
from ioassay.packs.fio.claims.fio_job_options import JobFacts
from ioassay.packs.fio.claims.fio_results import KINDS, TOTAL, Direction, Job, Latency, Results, in_direction
from ioassay.records.record import Misfit

_DIRECTIONS = ("read", "write", "trim")
_ISSUED_AS = {"mixed": "read"}
"""With unified_rw_reporting all requests stand in the first place."""
_FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_UNITS_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}

_JOB = re.compile(r"^(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(\d+)")
_SETTINGS = re.compile(r"^(.+): \(g=(\d+)\): rw=(\w+), bs=(.*?), ioengine=(\w+)(?:, iodepth=)?(\d*)")
_BLOCKS = re.compile(r"\(([RWT])\) ([\d.]+\w*)B-([\d.]+\w*)B")
_RATE = re.compile(
    r"^ +(?P<direction>read|write|trim|mixed): IOPS=(?P<iops>[\d.]+)(?P<thousands>[kMG]?), "
    r"BW=(?P<rate>[\d.]+)(?P<rate_unit>[kKMGTP]?i?)(?:B/s)? \((?P<again>[\d.]+)(?P<again_unit>[kKMGTP]?i?)(?:B/s)?\)"
    r"\((?P<volume>[\d.]+)(?P<volume_unit>[kKMGTP]?i?)B/(?P<time>\d+)(?P<time_unit>msec|sec|usec)\)"
)
_ISSUED = re.compile(r"^ +issued rwts: total=(\d+),(\d+),(\d+),(\d+)")
_STATISTIC = r" *([\d.]+)([kMG]?)"
_LATENCY = re.compile(
    r"^ +(lat|clat|slat|sync) \((nsec|usec|msec|sec)\): "
    rf"min={_STATISTIC}, max={_STATISTIC}, avg={_STATISTIC}, stdev={_STATISTIC}"
)
_GROUP = re.compile(r"^Run status group (\d+)")
_SUM = re.compile(
    r"^ *(READ|WRITE|TRIM): bw=(?P<rate>[\d.]+)(?P<rate_unit>\w*)B/s \((?P<again>[\d.]+)(?P<again_unit>\w*)B/s\), "
    r"(?P<least>[\d.]+)(?P<least_unit>\w*)B/s-(?P<most>[\d.]+)(?P<most_unit>\w*)B/s "
    r"\((?P<lower>[\d.]+)(?P<lower_unit>\w*)B/s-(?P<upper>[\d.]+)(?P<upper_unit>\w*)B/s\), "
    r"io=(?P<volume>[\d.]+)(?P<volume_unit>\w*)B \((?P<twice>[\d.]+)(?P<twice_unit>\w*)B\), "
    r"run=(\d+)-(\d+)msec".replace(r"\w*", "[kKMGTP]?i?")
)
_PERCENTILES = re.compile(r"^ +(lat|clat|slat|sync) percentiles \((nsec|usec|msec|sec)\):")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,20})th=\[ *(\d{1,19})\]")
_FRAME = re.compile(r"^Run status group|: \(groupid=|: \(g=\d+\): rw=", re.M)
_SERVER = re.compile(r"^hostname=", re.M)
_SETTINGS_LINE = re.compile(r": \(g=\d+\): rw=")
_MEANING = re.compile(r"=|percentiles \(|^Run status", re.M)


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


def split(text: str) -> list[str]:
    """A part for each report, which ends with the sums of its groups; the settings before the first one for each.

    Those of servers (`--client`) are one together.
    """
    if _SERVER.search(text):
        return [text]
    starts, in_sums, settings = [0], False, []
    for end, line in lines_with(text, _FRAME):
        if line.startswith("Run status group"):
            in_sums = True
        elif in_sums:
            starts.append(end - len(line))
            in_sums = False
        if _SETTINGS.match(line) and len(starts) == 1:
            settings.append(line)
    parts = parts_from(text, starts)
    return [part if _SETTINGS_LINE.search(part) else "\n".join([*settings, part]) for part in parts]


def parse(text: str, source: str) -> tuple[Results, Mapping[str, JobFacts]]:
    """The results in a report and what it says of the options of each job; InputError when no job did I/O."""
    blocks: list[_Block] = []
    facts: dict[str, JobFacts] = {}
    sums: dict[int, list[re.Match[str]]] = {}
    for _, line in lines_with(text, _MEANING):
        if match := _JOB.match(line):
            blocks.append(_Block(match))
        elif match := _SETTINGS.match(line):
            sizes = {  # by direction, where all requests are of one size with all its digits: not 16.0Ki
                _DIRECTIONS["RWT".index(letter)]: whole_number(low, "bs")
                for letter, low, high in _BLOCKS.findall(match[4])
                if low == high and low.isdecimal()
            }
            said = JobFacts(engine=match[5], record_bytes=sizes)
            facts[match[1]] = said if facts.get(match[1], said) == said else JobFacts()  # of another run beside it
        elif match := _GROUP.match(line):
            sums[int(match[1])] = []
        elif sums and (match := _SUM.match(line)):
            sums[[*sums][-1]].append(match)
        elif blocks:
            _add(blocks[-1], line)
    if not any(block.rates for block in blocks):
        raise InputError(
            f"{source}: has no line of results, such as '  read: IOPS=…'; run fio with --output-format=json"
        )
    reports = [block for block in blocks if block.head[1] != TOTAL]  # that is the sum of the reports before it
    if facts.keys() - {block.head[1] for block in reports}:  # with group_reporting a report may be that of several jobs
        facts = {}
    jobs = [_job(block, facts.get(block.head[1], JobFacts()).record_bytes) for block in reports]
    if not _SERVER.search(text):  # each server has groups of its own
        jobs = [replace(job, misfits=tuple(_of_sums(jobs, job, sums.pop(job.group, [])))) for job in jobs]
    return Results("", jobs, messages=text), facts


def parse_with_options(text: str, source: str) -> Results:
    """The results, with the options that the report begins with where it says them of every job."""
    results, _ = parse(text, source)
    options = {
        match[1]: {"rw": match[3], "bs": match[4], "ioengine": match[5], "iodepth": match[6]}
        for match in map(_SETTINGS.match, text.splitlines())
        if match
    }
    known = all(job.name in options for job in results.jobs)
    return replace(results, jobs=[replace(job, options=options[job.name]) if known else job for job in results.jobs])


def _of_sums(jobs: Sequence[Job], first: Job, sums: Sequence[re.Match[str]]) -> Iterator[Misfit]:
    """What the sums below a report say of a group that its jobs do not."""
    for line in sums:
        own = in_direction([job for job in jobs if job.group == first.group], line[1].lower())
        if not own:
            continue
        volume, twice, per_s, again = (_amount(line, name) for name in ("volume", "twice", "rate", "again"))
        name, times_s = f"group's {line[1]}", [float(number) / 1e3 for number in line.groups()[-2:]]
        rates = [(part.rate_bytes_per_s or 0.0, part.rate_step_bytes_per_s) for part in own]
        rounded = 0.0 if all(part.bytes_stated for part in own) else 0.01 * volume.value
        yield from equal(f"{name} volume", volume.value, sum(part.bytes for part in own), volume.step + rounded)
        yield from equal(f"{name} second volume", twice.value, volume.value, twice.step + volume.step)
        yield from equal(f"{name} shortest run", times_s[0], min(part.runtime_s for part in own), 0.0)
        yield from equal(f"{name} longest run", times_s[1], max(part.runtime_s for part in own), 0.0)
        yield from equal(f"{name} second bandwidth", again.value, per_s.value, again.step + per_s.step)
        yield from quotient(f"{name} bandwidth", volume.value, times_s[1], per_s.value, volume.step, 0.0, per_s.step)
        for part, ends in (("least", min(rates)), ("lower", min(rates)), ("most", max(rates)), ("upper", max(rates))):
            one = _amount(line, part)
            yield from equal(f"{name} bandwidth of a job", one.value, ends[0], one.step + ends[1])


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
        rate["direction"]: _direction(
            rate, latencies, issued.get(_ISSUED_AS.get(rate["direction"], rate["direction"])), record_bytes
        )
        for rate, latencies in zip(block.rates, block.latencies, strict=True)
    }
    error = whole_number(block.head[4], "err")
    sync = next((found["sync"] for found in block.latencies if "sync" in found), None)
    return Job(
        name=block.head[1],
        group=whole_number(block.head[2], "groupid"),
        error=error,
        processes=whole_number(block.head[3], "jobs"),
        directions=directions,
        runtime_s=max((direction.runtime_s for direction in directions.values()), default=0.0),
        errors=int(bool(error)),
        syncs=counts[3] if counts else None,
        sync_latency=_latency(sync, counts[3]) if sync and counts and counts[3] else None,
    )


def _direction(
    rate: re.Match[str], latencies: Mapping[str, _Statistics], issued: int | None, record_bytes: Mapping[str, int]
) -> Direction:
    runtime_s = real(rate["time"], "run time") * _UNITS_NS[rate["time_unit"]] / 1e9
    iops = real(rate["iops"], "IOPS") * _FACTORS[rate["thousands"]]
    ios = whole_number(round(iops * runtime_s), "IOPS times run time") if issued is None else issued
    record = record_bytes.get(rate["direction"]) if issued is not None else None
    stated, per_s, again = (_amount(rate, name) for name in ("volume", "rate", "again"))
    if record and abs(ios * record - stated.value) > stated.step:  # options may change sizes
        record = None
    volume = ios * record if record else round(stated.value)
    clock_s = step_of(rate["time"]) * _UNITS_NS[rate["time_unit"]] / 1e9
    iops_step = step_of(rate["iops"]) * _FACTORS[rate["thousands"]]
    misfits = [
        *equal("second bandwidth", again.value, per_s.value, again.step + per_s.step),
        *quotient("bandwidth", stated.value, runtime_s, per_s.value, stated.step, clock_s / 1e3, per_s.step),
        *quotient("IOPS", ios, runtime_s, iops, 0.0, clock_s / 1e3, iops_step),
    ]
    return Direction(
        ios=ios,
        bytes=whole_number(volume, "volume"),
        runtime_s=runtime_s,
        latencies={kind: _latency(found, ios) for kind, found in latencies.items() if ios and kind in KINDS},
        ios_stated=issued is not None,
        bytes_stated=bool(record),
        rate_bytes_per_s=per_s.value,
        rate_step_bytes_per_s=per_s.step,
        operations_per_s=iops,
        operations_per_s_step=iops_step,
        misfits=misfits,
    )


def _amount(match: re.Match[str], name: str) -> Quantity:
    """A number of bytes and its unit, named so in the pattern."""
    unit = match[f"{name}_unit"]  # `Mi` is 1024²; `M` is 1000², as with kb_base=1000
    factor = float((1024 if unit.endswith("i") else 1000) ** " KMGTP".index(unit.removesuffix("i").upper() or " "))
    return Quantity(real(match[name], name) * factor, step_of(match[name]) * factor, False)


def _latency(printed: _Statistics, count: int) -> Latency:
    kind, unit, *statistics = printed.line.groups()
    pairs = list(zip(statistics[::2], statistics[1::2], strict=True))
    low, high, mean, deviation = (
        real(number, f"{kind} statistic") * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs
    )
    steps = [step_of(number) * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs]
    own_ns = _UNITS_NS.get(printed.percentiles_unit, 1.0)
    shares = {real(share, kind): real(value, f"{kind} percentile") * own_ns for share, value in printed.percentiles}
    step_ns = max(*steps[:2], own_ns)
    return Latency(count, mean, deviation, low, high, {}, shares, step_ns, max(steps[2:]), percentile_unit_ns=own_ns)
