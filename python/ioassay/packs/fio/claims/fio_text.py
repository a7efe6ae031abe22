"""fio's report for people, read into `fio_results`; it loses digits that JSON keeps.

Rates and volumes have three digits. The number of requests is exact (`issued rwts`), and so are the bytes where all
requests were of one size. Layout: fio's HOWTO, "Interpreting the output"; `show_thread_status_normal` in its stat.c.
Before version 2.17 a direction was `read : io=4092.0KB, bw=28221KB/s, iops=7055, runt= 145msec`: its K is 1024 (with
kb_base=1000 it is 1000). Up to 2.21 what is behind a point are no decimals, but 1024ths cut short (num2str.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ioassay.errors import InputError, naming
from ioassay.formats.number_parsing import (
    Quantity,
    equal,
    leave_out,
    lines_with,
    parts_from,
    quotient,
    real,
    step_of,
    whole_number,
)
from ioassay.packs.fio.claims.fio_job_options import JobFacts
from ioassay.packs.fio.claims.fio_results import (
    CPU,
    KINDS,
    TOTAL,
    CpuUse,
    Direction,
    Job,
    Latency,
    Results,
    error_number,
    in_direction,
    rate_misfits,
)
from ioassay.records.record import Misfit

_DIRECTIONS = ("read", "write", "trim")
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_UNITS_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}

_JOB = re.compile(r"^(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(-?\d{1,10})\b")
_SETTINGS = re.compile(r"^(.+): \(g=(\d+)\): rw=(\w+), bs=(.*?), ioengine=(\w+)(?:, iodepth=)?(\d*)")
_BLOCKS = re.compile(r"\(([RWT])\) ([\d.]+\w*)B-([\d.]+\w*)B")
_RANGE = re.compile(r"([\d.]+\w*)-([\d.]+\w*)")
_BLOCKS_2 = re.compile(r"(\d+)([KM]?)-\1\2")
_RATE = re.compile(
    r"^ +(?P<direction>read|write|trim|mixed): IOPS=(?P<iops>[\d.]+)(?P<thousands>[kMG]?), "
    r"BW=(?P<rate>[\d.]+)(?P<rate_unit>[kKMGTP]?i?)(?P<bits>B|bit)?(?:/s)? "
    r"\((?P<again>[\d.]+)(?P<again_unit>[kKMGTP]?i?)(?:B|bit)?(?:/s)?\)"
    r"\((?P<volume>[\d.]+)(?P<volume_unit>[kKMGTP]?i?)B/(?P<time>\d+)(?P<time_unit>msec|sec|usec)\)"
)
_RATE_2 = re.compile(
    r"^ +(?P<direction>read|write|trim|mixed) *: io=(?P<volume>[\d.]+)(?P<volume_unit>[KMGTP]?) ?B, "
    r"bw=(?P<rate>[\d.]+)(?P<rate_unit>[KMGTP]?) ?(?P<bits>B|bit)/s, iops=(?P<iops>[\d.]+)(?P<thousands>[KMG]?) *, "
    r"runt= *(?P<time>\d+)(?P<time_unit>msec)"
)
_ISSUED = re.compile(
    r"^ +issued *(?:r/w/d|rwt|(rwts))? *: total=(?:r=)?(\d+)[,/](?:w=)?(\d+)[,/](?:d=)?(\d+)(?:,(\d+)|(?=[, ]|$))"
)
_STATISTIC = r" *([\d.]+)([kKMG]?) *"
_LATENCY = re.compile(
    r"^ +(lat|clat|slat|sync) \((nsec|usec|msec|sec)\): "
    rf"min={_STATISTIC}, max={_STATISTIC}, avg={_STATISTIC}, stdev={_STATISTIC}"
)
_CPU = re.compile(r"^ +cpu +: usr=([\d.]{1,20})%, sys=([\d.]{1,20})%, ctx=(\d{1,19}), majf=(\d{1,19}), minf=(\d{1,19})")
_ERRORS = re.compile(r"^ +errors +: total=(\d{1,19}), first_error=")
_GROUP = re.compile(r"^Run status group (\d+)")
_SUM = re.compile(
    r"^ *(READ|WRITE|TRIM): bw=(?P<rate>[\d.]+)(?P<rate_unit>\w*)B/s \((?P<again>[\d.]+)(?P<again_unit>\w*)B/s\), "
    r"(?P<least>[\d.]+)(?P<least_unit>\w*)B/s-(?P<most>[\d.]+)(?P<most_unit>\w*)B/s "
    r"\((?P<lower>[\d.]+)(?P<lower_unit>\w*)B/s-(?P<upper>[\d.]+)(?P<upper_unit>\w*)B/s\), "
    r"io=(?P<volume>[\d.]+)(?P<volume_unit>\w*)B \((?P<twice>[\d.]+)(?P<twice_unit>\w*)B\), "
    r"run=(\d+)-(\d+)msec".replace(r"\w*", "[kKMGTP]?i?")
)
_PERCENTILES = re.compile(r"^ +(lat|clat|slat|sync) percentiles \((nsec|usec|msec|sec)\) ?:")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,20})th=(?:\[ *)?(\d{1,19})\b")
_BY_PRIORITY = re.compile(r"^ +(?:[cs]?lat prio \d|(?:high|low) prio)", re.M)
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
    cpu: CpuUse = field(default_factory=CpuUse)
    errors: int | None = None
    """With continue_on_error."""


def looks_like(text: str) -> bool:
    """Whether it has the report's line of a direction."""
    return ": (groupid=" in text and (" BW=" in text or ", runt=" in text)


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
    """The results in a report and what it says of the options of each job.

    InputError names `source` when no job did I/O, and for what fio cannot have printed.
    """
    with naming(source):
        blocks: list[_Block] = []
        facts: dict[str, JobFacts] = {}
        sums: dict[int, list[re.Match[str]]] = {}
        for _, line in lines_with(text, _MEANING):
            if match := _JOB.match(line):
                blocks.append(_Block(match))
            elif match := _SETTINGS.match(line):
                said = JobFacts(engine=match[5], record_bytes=_record_bytes(match[4]))
                facts[match[1]] = said if facts.get(match[1], said) == said else JobFacts()  # of another run beside it
            elif match := _GROUP.match(line):
                sums[int(match[1])] = []
            elif sums and (match := _SUM.match(line)):
                sums[[*sums][-1]].append(match)
            elif blocks:
                _add(blocks[-1], line)
        if not any(block.rates for block in blocks):
            raise InputError("has no line of results, such as '  read: IOPS=…'; run fio with --output-format=json")
        reports = [block for block in blocks if block.head[1] != TOTAL]  # that is the sum of the reports before it
        if facts.keys() - {block.head[1] for block in reports}:  # with group_reporting a report may be of several jobs
            facts = {}
        jobs = [_job(block, facts.get(block.head[1], JobFacts()).record_bytes) for block in reports]
        if not _SERVER.search(text):  # each server has groups of its own
            jobs = [replace(job, misfits=tuple(_of_sums(jobs, job, sums.pop(job.group, [])))) for job in jobs]
        if _BY_PRIORITY.search(text):
            leave_out(["latencies by priority, which are read in JSON"])
        return Results("", jobs, messages=text), facts


def parse_with_options(text: str, source: str) -> Results:
    """The results, with the options that the report begins with where it says them of every job."""
    results, _ = parse(text, source)
    options = {
        match[1]: {"rw": match[3], "bs": _block_size(match[4]), "ioengine": match[5], "iodepth": match[6]}
        for match in map(_SETTINGS.match, text.splitlines())
        if match
    }
    known = all(job.name in options for job in results.jobs)
    return replace(results, jobs=[replace(job, options=options[job.name]) if known else job for job in results.jobs])


def _block_size(printed: str) -> str:
    """The one size of all requests, where there is one; else what is printed."""
    sizes = {size for pair in _RANGE.findall(printed) for size in pair}
    return sizes.pop() if len(sizes) == 1 else printed


def _record_bytes(printed: str) -> dict[str, int]:
    """By direction, where all requests are of one size with all its digits: not 16.0Ki."""
    if "(" in printed:
        found = {letter: low for letter, low, high in _BLOCKS.findall(printed) if low == high and low.isdecimal()}
        return {_DIRECTIONS["RWT".index(letter)]: whole_number(size, "bs") for letter, size in found.items()}
    parts = zip(_DIRECTIONS, map(_BLOCKS_2.fullmatch, printed.split("/")), strict=False)
    return {name: whole_number(part[1], "bs") * 1024 ** " KM".index(part[2] or " ") for name, part in parts if part}


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
    if match := _RATE.match(line) or _RATE_2.match(line):
        if block.issued or any(match["direction"] == rate["direction"] for rate in block.rates):
            job, direction = block.head[1], match["direction"]
            raise InputError(f"{job} has a line of {direction} too many; expected the head of another job before it")
        block.rates.append(match)
        block.latencies.append({})
    elif match := _ISSUED.match(line):
        block.issued = match
    elif match := _CPU.match(line):
        block.cpu = CpuUse(*(real(number, name) for number, name in zip(match.groups(), CPU, strict=True)))
    elif match := _ERRORS.match(line):
        block.errors = whole_number(match[1], "errors")
    elif block.rates and (match := _LATENCY.match(line)):
        block.latencies[-1].setdefault(match[1], _Statistics(match))
    elif "percentiles (" in line:
        match = _PERCENTILES.match(line)  # None of those of requests of one priority
        block.below = block.latencies[-1].get(match[1]) if match and block.rates else None
        if match and block.below:
            block.below.percentiles_unit = match[2]
            block.below.percentiles += _PERCENTILE.findall(line)  # fio 1 begins on this line
    elif block.below and (line.lstrip().startswith("|") or _PERCENTILE.match(line.lstrip())):
        known, more = block.below.percentiles, _PERCENTILE.findall(line)
        if known and more and real(more[0][0], "percentile") <= real(known[-1][0], "percentile"):
            block.below = None  # those of another kind, whose title is damaged
        else:
            known += more


def _job(block: _Block, record_bytes: Mapping[str, int]) -> Job:
    printed = filter(None, block.issued.groups()[1:]) if block.issued else ()
    counts = [whole_number(count, "issued rwts") for count in printed]
    issued = dict(zip(_DIRECTIONS, counts, strict=False)) | ({"mixed": sum(counts[:3])} if counts else {})
    in_ns = block.issued is None or block.issued[1] is not None  # in microseconds before, in coarser buckets
    directions = {
        rate["direction"]: _direction(rate, latencies, issued.get(rate["direction"]), record_bytes, in_ns)
        for rate, latencies in zip(block.rates, block.latencies, strict=True)
    }
    if sum(counts[:3]) and not block.rates:
        raise InputError(
            f"{block.head[1]} did {sum(counts[:3])} requests, but has no line of a direction as fio has it"
        )
    error = error_number(block.head[4], "err")
    sync = next((found["sync"] for found in block.latencies if "sync" in found), None)
    return Job(
        name=block.head[1],
        group=whole_number(block.head[2], "groupid"),
        error=error,
        processes=whole_number(block.head[3], "jobs"),
        directions=directions,
        runtime_s=max((direction.runtime_s for direction in directions.values()), default=0.0),
        cpu=block.cpu,
        errors=int(bool(error)) if block.errors is None else block.errors,
        syncs=counts[3] if counts[3:] else None,
        # Of fdatasync and sync_file_range no number is printed.
        sync_latency=_latency(sync, sum(counts[3:]), in_ns) if sync else None,
    )


def _direction(
    rate: re.Match[str],
    latencies: Mapping[str, _Statistics],
    issued: int | None,
    record_bytes: Mapping[str, int],
    in_ns: bool,
) -> Direction:
    runtime_s = real(rate["time"], "run time") * _UNITS_NS[rate["time_unit"]] / 1e9
    iops = real(rate["iops"], "IOPS") * _FACTORS[rate["thousands"]]
    ios = whole_number(round(iops * runtime_s), "IOPS times run time") if issued is None else issued
    record = record_bytes.get(rate["direction"]) if issued is not None else None
    kilo, second = (1024, ()) if rate.re is _RATE_2 else (None, ("again",))
    if kilo and record and not _fits(rate, kilo, ios * record):
        kilo = 1000 if _fits(rate, 1000, ios * record) else kilo  # kb_base=1000
    is_coarse = not in_ns or kilo is not None
    stated, per_s, *others = (_amount(rate, name, kilo, is_coarse=is_coarse) for name in ("volume", "rate", *second))
    again = others[0] if others else per_s
    if record and abs(ios * record - stated.value) > stated.step:  # options may change sizes
        record = None
    volume = ios * record if record else round(stated.value)
    clock_s = step_of(rate["time"]) * _UNITS_NS[rate["time_unit"]] / 1e9
    iops_step = (1.0 if is_coarse else step_of(rate["iops"])) * _FACTORS[rate["thousands"]]
    misfits = [
        *equal("second bandwidth", again.value, per_s.value, again.step + per_s.step),
        *rate_misfits("bandwidth", stated.value, runtime_s, per_s.value, stated.step, clock_s / 1e3, per_s.step),
        *quotient("IOPS", ios, runtime_s, iops, 0.0, clock_s / 1e3, iops_step),
    ]
    return Direction(
        ios=ios,
        bytes=whole_number(volume, "volume"),
        runtime_s=runtime_s,
        latencies={kind: _latency(found, ios, in_ns) for kind, found in latencies.items() if ios and kind in KINDS},
        ios_stated=issued is not None,
        bytes_stated=bool(record),
        rate_bytes_per_s=per_s.value,
        rate_step_bytes_per_s=per_s.step,
        operations_per_s=iops,
        operations_per_s_step=iops_step,
        misfits=misfits,
    )


def _fits(rate: re.Match[str], kilo: int, volume: int) -> bool:
    stated = _amount(rate, "volume", kilo, is_coarse=True)
    return abs(volume - stated.value) <= stated.step


def _amount(match: re.Match[str], name: str, kilo: int | None = None, *, is_coarse: bool = False) -> Quantity:
    """A number of bytes and its unit, named so in the pattern. Without `kilo` the unit says what K is.

    `is_coarse`: of versions whose decimals are none.
    """
    unit = match[f"{name}_unit"]  # `Mi` is 1024²; `M` is 1000², as with kb_base=1000
    factor = float(
        (kilo or (1024 if unit.endswith("i") else 1000)) ** " KMGTP".index(unit.removesuffix("i").upper() or " ")
    )
    step = factor * (1.0 if is_coarse else step_of(match[name]))
    bits = 8 if name != "volume" and match.groupdict().get("bits") == "bit" else 1  # unit_base=1
    return Quantity(real(match[name], name) * factor / bits, step / bits, False)


def _latency(printed: _Statistics, count: int, in_ns: bool) -> Latency:
    kind, unit, *statistics = printed.line.groups()
    pairs = list(zip(statistics[::2], statistics[1::2], strict=True))
    low, high, mean, deviation = (
        real(number, f"{kind} statistic") * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs
    )
    steps = [step_of(number) * _FACTORS[prefix] * _UNITS_NS[unit] for number, prefix in pairs]
    own_ns = _UNITS_NS.get(printed.percentiles_unit, 1.0)
    shares = {real(share, kind): real(value, f"{kind} percentile") * own_ns for share, value in printed.percentiles}
    step_ns = max(*steps[:2], own_ns)
    unit_ns = own_ns if in_ns else 0.0
    return Latency(count, mean, deviation, low, high, {}, shares, step_ns, max(steps[2:]), percentile_unit_ns=unit_ns)
