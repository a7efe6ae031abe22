"""What outputs of tools say, read in the plainest way, without any reader of ioassay's: for `real_outputs.py`.

Each function takes an output's text and returns its loads in their order. Of a load, `numbers` has what an import must
have (of a name with `?`: may have), by metric, as the value and by how much the last digits that the tool prints let it
differ; `parts` the same of each job; `bins` exact counts of latencies; `unread` what the output states and the import
has no name for. Numbers of several jobs together are computed here anew.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Number = tuple[float, float]
"""A value, and how far from it another may be."""
EXACT = 1e-9
"""Relative: what is stated with all its digits."""
SHORT_UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
UNITS_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
PREFIXES = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


@dataclass
class Load:
    """What one trial of the import must say."""

    numbers: dict[str, Number] = field(default_factory=dict)
    parts: list[dict[str, Number]] = field(default_factory=list)
    bins: dict[tuple[str, str, int], dict[int, int]] = field(default_factory=dict)
    """Direction, kind and job (-1: all) -> ns -> requests."""
    bin_share: float = 0.0
    """How wide the bins of an import may be, of the latency: of logs it keeps no single values."""
    unread: Counter[str] = field(default_factory=Counter)
    failed: bool = False
    started_s: float = 0.0


def exact(value: float) -> Number:
    """A number with all its digits."""
    return float(value), abs(value) * EXACT


def printed(text: str, factor: float = 1.0) -> Number:
    """A number of which what is printed is known: its last digit may be rounded or cut off."""
    digits = len(text.partition(".")[2])
    return float(text) * factor, 1.001 * factor * 10.0**-digits


# fio: JSON and JSON+

_READ_OF_JOB = {
    "jobname",
    "groupid",
    "error",
    "job options",
    "read",
    "write",
    "trim",
    "mixed",
    "sync",
    "usr_cpu",
    "sys_cpu",
    "ctx",
    "majf",
    "minf",
    "job_runtime",
    "total_err",
    "hostname",
    "port",
}
_READ_OF_DIRECTION = {
    "io_bytes",
    "io_kbytes",
    "bw_bytes",
    "bw",
    "iops",
    "runtime",
    "total_ios",
    "slat_ns",
    "clat_ns",
    "lat_ns",
}
_COUNTS = {"ctx": "context_switches", "majf": "major_faults", "minf": "minor_faults"}


def fio_documents(text: str) -> list[dict[str, Any]]:
    """Each JSON document of fio's in a text, whatever stands around it."""
    decoder, found, place = json.JSONDecoder(), [], 0
    while (place := text.find("{", place)) >= 0:
        try:
            document, place = decoder.raw_decode(text, place)
        except ValueError:
            place += 1
            continue
        if isinstance(document, dict) and "jobs" in document:
            found.append(document)
    return found


def fio_json(text: str) -> list[Load]:
    """A load for each group of jobs of each document; of reports of the same run, the last."""
    documents = fio_documents(text)
    last = [
        document
        for document, following in zip(documents, [*documents[1:], None], strict=False)
        if following is None or not _same_run(document, following)
    ]
    return [load for document in last for load in _of_document(document)]


def _same_run(one: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """By --status-interval: the later began before the earlier was written."""
    ran_ms = max(
        (job[way]["runtime"] for job in later["jobs"] for way in ("read", "write", "trim", "mixed") if way in job),
        default=0,
    )
    names = [[job["jobname"] for job in each["jobs"]] for each in (one, later)]
    return names[0] == names[1] and later["timestamp_ms"] - one["timestamp_ms"] < ran_ms


def _of_document(document: Mapping[str, Any]) -> Iterator[Load]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    with_options = any("job options" in job for job in document["jobs"]) or document.get("global options")
    for job in document["jobs"]:
        groups.setdefault(job["groupid"] if with_options else (job["jobname"], job["groupid"]), []).append(job)
    for jobs in groups.values():
        singles = [_of_job(job) for job in jobs]
        load = singles[0][0] if len(jobs) == 1 else _together(jobs)
        load.parts = [one.numbers for one, _ in singles] if len(document["jobs"]) > 1 and len(jobs) > 1 else []
        for number, (one, _) in enumerate(singles) if len(jobs) > 1 else ():
            load.bins |= {(way, kind, number): bins for (way, kind, _), bins in one.bins.items()}
        load.unread = sum((unread for _, unread in singles), Counter())
        load.started_s = document["timestamp_ms"] / 1e3
        load.failed = any(job["error"] for job in jobs) or not any(
            job[way]["total_ios"] for job in jobs for way in ("read", "write", "trim", "mixed") if way in job
        )
        yield load


def _of_job(job: Mapping[str, Any]) -> tuple[Load, Counter[str]]:
    """What one job states, under the names of metrics, and what is left over."""
    load, unread = Load(), Counter[str]()
    ran_ms = 0
    for key, way in (("read", "read"), ("write", "write"), ("trim", "trim"), ("mixed", "total")):
        table = job.get(key)
        if not table:
            continue
        ran_ms = max(ran_ms, table["runtime"])
        unread.update(f"{name}" for name in table if name not in _READ_OF_DIRECTION and _states(table[name]))
        if not table["total_ios"]:
            continue
        load.numbers |= {
            f"{way}.ios": exact(table["total_ios"]),
            f"{way}.bytes": exact(table["io_bytes"]),
            f"{way}.runtime": exact(table["runtime"] / 1e3),
        }
        if table["runtime"]:
            load.numbers[f"{way}.bw"] = float(table["bw_bytes"]), 1.0
            load.numbers[f"{way}.iops"] = float(table["iops"]), 1e-6 + table["iops"] * EXACT
        for kind in ("slat", "clat", "lat"):
            _add_latency(load, way, kind, table.get(f"{kind}_ns"))
    if sync := job.get("sync"):
        _add_latency(load, "sync", "lat", sync.get("lat_ns"))
        if made := max(sync.get("total_ios", 0), sync.get("lat_ns", {}).get("N", 0)):
            load.numbers["sync.ios"] = exact(made)
    load.numbers |= {name: exact(job[key]) for key, name in _COUNTS.items()}
    if job.get("latency_target"):
        load.numbers["?latency_target.depth"] = exact(job["latency_depth"])
    if ran_ms:
        for key, name in (("usr_cpu", "cpu.usr"), ("sys_cpu", "cpu.sys")):
            load.numbers[name] = exact(job[key] * (job.get("job_runtime") or ran_ms) / ran_ms)
    _add_total(load)
    unread.update(name for name in job if name not in _READ_OF_JOB and _states(job[name]))
    return load, unread


def _states(value: Any) -> bool:
    """Whether it is a number, or has some, that says more than that nothing was."""
    if isinstance(value, Mapping):
        return any(map(_states, value.values()))
    if isinstance(value, list):
        return any(map(_states, value))
    return isinstance(value, int | float) and bool(value)


def _add_latency(load: Load, way: str, kind: str, table: Mapping[str, Any] | None) -> None:
    if not table or not table.get("N"):
        return
    name = f"{way}.{kind}"
    load.numbers |= {f"{name}.{key}": exact(table[key]) for key in ("min", "max", "mean", "stddev")}
    for share, value_ns in table.get("percentile", {}).items():
        if float(share):
            load.numbers[f"{name}.p{float(share):g}"] = exact(value_ns)
    if "bins" in table:
        load.bins[way, kind, -1] = {int(value): count for value, count in table["bins"].items() if count}


def _add_total(load: Load) -> None:
    """Of reads, writes and trims together, where fio did not say it as `mixed`."""
    own = [way for way in ("read", "write", "trim") if f"{way}.ios" in load.numbers]
    if not own or "total.ios" in load.numbers:
        return
    for what in ("ios", "bytes"):
        load.numbers[f"total.{what}"] = exact(sum(load.numbers[f"{way}.{what}"][0] for way in own))
    took_s = max(load.numbers[f"{way}.runtime"][0] for way in own)
    load.numbers["total.runtime"] = exact(took_s)
    if took_s:
        load.numbers["total.bw"] = exact(load.numbers["total.bytes"][0] / took_s)
        load.numbers["total.iops"] = exact(load.numbers["total.ios"][0] / took_s)


def _together(jobs: Sequence[Mapping[str, Any]]) -> Load:
    """Jobs that ran at once: sums over the longest time, and pooled latencies."""
    load, took_ms = Load(), 0
    for key, way in (("read", "read"), ("write", "write"), ("trim", "trim"), ("mixed", "total")):
        tables = [job[key] for job in jobs if key in job]
        took_ms = max([took_ms, *(table["runtime"] for table in tables)])
        ios, volume = (sum(table[name] for table in tables) for name in ("total_ios", "io_bytes"))
        if not ios:
            continue
        took_s = max(table["runtime"] for table in tables) / 1e3
        load.numbers |= {f"{way}.ios": exact(ios), f"{way}.bytes": exact(volume), f"{way}.runtime": exact(took_s)}
        if took_s:
            load.numbers |= {f"{way}.bw": exact(volume / took_s), f"{way}.iops": exact(ios / took_s)}
        for kind in ("slat", "clat", "lat"):
            _add_pooled(load, way, kind, [table.get(f"{kind}_ns", {}) for table in tables])
    syncs = [job["sync"] for job in jobs if "sync" in job]
    _add_pooled(load, "sync", "lat", [sync.get("lat_ns", {}) for sync in syncs])
    if made := sum(max(sync.get("total_ios", 0), sync.get("lat_ns", {}).get("N", 0)) for sync in syncs):
        load.numbers["sync.ios"] = exact(made)
    load.numbers |= {name: exact(sum(job[key] for job in jobs)) for key, name in _COUNTS.items()}
    if took_ms:
        for key, name in (("usr_cpu", "cpu.usr"), ("sys_cpu", "cpu.sys")):
            load.numbers[name] = exact(sum(job[key] * job["job_runtime"] for job in jobs) / took_ms)
    _add_total(load)
    return load


def _add_pooled(load: Load, way: str, kind: str, tables: Iterable[Mapping[str, Any]]) -> None:
    own = [table for table in tables if table.get("N")]
    if len(own) < 2:
        _add_latency(load, way, kind, own[0] if own else None)
        return
    name, count = f"{way}.{kind}", sum(table["N"] for table in own)
    mean = sum(table["mean"] * table["N"] for table in own) / count
    squares = sum(table["stddev"] ** 2 * (table["N"] - 1) + table["N"] * (table["mean"] - mean) ** 2 for table in own)
    load.numbers[f"{name}.min"] = exact(min(table["min"] for table in own))
    load.numbers[f"{name}.max"] = exact(max(table["max"] for table in own))
    load.numbers[f"{name}.mean"] = exact(mean)
    load.numbers[f"{name}.stddev"] = math.sqrt(squares / (count - 1)), 1e-6 * (1 + math.sqrt(squares))
    if all("bins" in table for table in own):
        bins: Counter[int] = Counter()
        for table in own:
            bins.update({int(value): number for value, number in table["bins"].items() if number})
        load.bins[way, kind, -1] = dict(bins)


def percentile_bounds(bins: Mapping[int, int], percent: float) -> tuple[float, float]:
    """Between which latencies a percentile of a distribution may lie: its neighbours, and how wide fio's bins are."""
    values, total, reached = sorted(bins), sum(bins.values()), 0
    for place, value in enumerate(values):
        reached += bins[value]
        if reached >= percent / 100 * total * (1 - 1e-12):
            return values[max(place - 1, 0)] * (1 - 1 / 64) - 1, values[min(place + 1, len(values) - 1)] * (
                1 + 1 / 64
            ) + 1
    return math.nan, math.nan


# fio: terse lines. The order of the fields is HOWTO's, "Terse output".


def fio_terse(text: str, *, status: bool = False) -> list[Load]:
    """A load for each name and group; of a job that is reported again and again (--status-interval) the last."""
    reports: list[list[tuple[tuple[str, str], Load]]] = []
    names: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        # A name may have semicolons of its own.
        head = re.match(r"(?:([345]);(fio-[^;]*);|(2)();)(.*?);(\d+);(\d+);(?=\d+;\d+;\d+;)", line)
        if not head or line.count(";") < 60:
            continue
        fields = [head[1] or head[3], head[2] or "", *head.groups()[4:], *line[head.end() :].split(";")]
        load = _of_terse(fields)
        key = fields[2], fields[3]
        if not reports or (key == names[-1][0] and key != names[-1][-1]):
            reports.append([])
            names.append([])
        reports[-1].append((key, load))
        names[-1].append(key)
    if status:
        reports = [[*dict(one for report in reports for one in report).items()]]
    return [load for report in reports for load in _grouped(report)]


def _grouped(report: Iterable[tuple[object, Load]]) -> list[Load]:
    """A load for each key, which has those of that key as its parts."""
    groups: dict[object, list[Load]] = {}
    for key, load in report:
        groups.setdefault(key, []).append(load)
    return [
        loads[0]
        if len(loads) == 1
        else Load(parts=[one.numbers for one in loads], numbers=_summed(loads), failed=any(one.failed for one in loads))
        for loads in groups.values()
    ]


def _summed(loads: Sequence[Load]) -> dict[str, Number]:
    """What is exact of several jobs together in formats with few digits: volumes and extremes."""
    numbers: dict[str, Number] = {}
    if syncs := [load.numbers["sync.ios"][0] for load in loads if "sync.ios" in load.numbers]:
        numbers["sync.ios"] = exact(sum(syncs))
    for way in ("read", "write", "trim", "total", "sync"):
        own = [
            load.numbers
            for load in loads
            if f"{way}.bytes" in load.numbers or (way == "sync" and "sync.lat.min" in load.numbers)
        ]
        if len(own) < 2:  # all that its only job says
            numbers |= {name: value for one in own for name, value in one.items() if name.startswith(f"{way}.")}
            continue
        for name in ("bytes", "ios"):
            if all(f"{way}.{name}" in one for one in own):
                values, slacks = zip(*(one[f"{way}.{name}"] for one in own), strict=True)
                numbers[f"{way}.{name}"] = sum(values), sum(slacks)
        if way != "sync":
            numbers[f"{way}.runtime"] = max(one[f"{way}.runtime"] for one in own)
        for kind in ("slat", "clat", "lat"):
            having = [one for one in own if f"{way}.{kind}.min" in one]
            if having:
                numbers[f"{way}.{kind}.min"] = min(one[f"{way}.{kind}.min"] for one in having)
                numbers[f"{way}.{kind}.max"] = max(one[f"{way}.{kind}.max"] for one in having)
    return numbers


def _of_terse(fields: Sequence[str]) -> Load:
    version = int(fields[0])
    width = 47 if version == 5 else 41
    load, place = Load(), 5
    at_cpu = next(
        at for at in range(5 + width, len(fields) - 2, width) if fields[at].endswith("%") and fields[at + 2].isdigit()
    )
    several = ["read", "write"] if version == 3 or at_cpu == 5 + 2 * width else ["read", "write", "trim"]
    ways = ["total"] if at_cpu == 5 + width else [*several, "total"][: (at_cpu - 5) // width]
    for way in ways:
        own = fields[place : place + width]
        place += width
        kib, rate, iops, ran_ms = map(int, own[:4])
        if not kib and not iops:
            continue
        load.numbers[f"{way}.bytes"] = kib * 1024.0, 1024.0
        load.numbers[f"{way}.runtime"] = exact(ran_ms / 1e3)
        load.numbers[f"{way}.bw"] = rate * 1024.0, 1024.0 * 1.01 + (1024e3 / ran_ms if ran_ms else 0)
        load.numbers[f"{way}.iops"] = float(iops), 1.01 + (1e3 / ran_ms if ran_ms else 0)
        load.numbers[f"{way}.ios"] = iops * ran_ms / 1e3, ran_ms / 1e3 + 1
        for kind, four in (("slat", own[4:8]), ("clat", own[8:12]), ("lat", own[32:36])):
            if float(four[1]):
                for name, cell in zip(("min", "max", "mean", "stddev"), four, strict=True):
                    load.numbers[f"{way}.{kind}.{name}"] = exact(float(cell) * 1e3)
        for cell in own[12:32]:
            share, _, value = cell.partition("%=")
            if float(share) and float(own[9]):
                load.numbers[f"{way}.clat.p{float(share):g}"] = exact(float(value) * 1e3)
    load.numbers |= {
        name: exact(float(fields[at_cpu + at]))
        for at, name in ((2, "context_switches"), (3, "major_faults"), (4, "minor_faults"))
    }
    load.numbers |= {"cpu.usr": exact(float(fields[at_cpu][:-1])), "cpu.sys": exact(float(fields[at_cpu + 1][:-1]))}
    load.failed = fields[4] != "0" or not any(name.endswith(".bytes") for name in load.numbers)
    return load


# fio: its report for people


def fio_text(text: str, *, status: bool = False) -> list[Load]:
    """A load for each group with options, or each name and group; with --status-interval of the last report."""
    reports: list[list[tuple[tuple[str, str], Load]]] = []
    ended = True
    for block in re.split(r"^(?=\S.*: \(groupid=)", text, flags=re.M):
        if head := re.match(r"(.+): \(groupid=(\d+), jobs=(\d+)\): err= *(\d+)", block):
            if ended:
                reports.append([])
            body, _, rest = block.partition("\nRun status")
            reports[-1].append(((head[1], head[2]), _of_block(body, head[4])))
            ended = bool(rest)
    settings = dict(re.findall(r"^(.+): \(g=(\d+)\): rw=", text, re.M))
    found = []
    for report in reports[-1:] if status else reports:
        known = all(name in settings for (name, _), _ in report)
        found += _grouped((("" if known else name, group), load) for (name, group), load in report)
    return found


def _of_block(block: str, error: str) -> Load:
    load = Load(failed=error != "0")
    issued = re.search(r"issued rwts: total=(\d+),(\d+),(\d+),(\d+)", block)
    sections = re.split(r"^(?=  (?:read|write|trim|mixed): |  fsync/|  cpu  |  IO depths)", block, flags=re.M)
    for section in sections:
        way = section.strip().partition(":")[0]
        rate = re.match(
            r"  (?:read|write|trim|mixed): IOPS=([\d.]+)([kMG]?), BW=([\d.]+)(\w*?)(?:B/s)? "
            r"\(([\d.]+)(\w*?)(?:B/s)?\)\(([\d.]+)(\w*?)B/(\d+)(m?sec)\)",
            section,
        )
        if rate:
            way = "total" if way == "mixed" else way
            iops, per_s, volume = (printed(rate[at], PREFIXES[rate[at + 1]]) for at in (1, 3, 7))
            if volume[0] or iops[0] or way == "total":
                ran_s = float(rate[9]) * UNITS_NS[rate[10]] / 1e9
                load.numbers |= {f"{way}.runtime": exact(ran_s), f"{way}.bytes": volume}
                share = volume[1] / volume[0] if volume[0] else 0.0
                load.numbers[f"{way}.bw"] = per_s[0], per_s[1] + per_s[0] * share
                load.numbers[f"{way}.iops"] = iops[0], iops[1] + 0.01
                if issued and way != "total":
                    load.numbers[f"{way}.ios"] = exact(int(issued[1 + ("read", "write", "trim").index(way)]))
        elif section.startswith("  fsync"):
            way = "sync"
        elif section.startswith("  cpu"):
            _add_cpu(load, section)
            continue
        else:
            continue
        _add_lines(load, way, section)
    both = [int(issued[at]) for at in (1, 2, 3)] if issued else []
    if "\n  mixed: " in block and re.search(r"^  (read|write|trim): ", block, re.M):
        load.numbers = {
            name: number for name, number in load.numbers.items() if not re.fullmatch(r"total\.(bw|iops|bytes)", name)
        }
        load.numbers["total.ios"] = exact(sum(both))  # 3.33 prints zeros in the line of `mixed`
    if issued and int(issued[4]):
        load.numbers["sync.ios"] = exact(int(issued[4]))
    load.failed |= not any(name.endswith(".bytes") for name in load.numbers)
    return load


def _add_cpu(load: Load, line: str) -> None:
    cpu = re.search(r"usr=([\d.]+)%, sys=([\d.]+)%, ctx=(\d+), majf=(\d+), minf=(\d+)", line)
    if cpu:
        names = ("cpu.usr", "cpu.sys", "context_switches", "major_faults", "minor_faults")
        load.unread.update(name for name, value in zip(names, cpu.groups(), strict=True) if float(value))


def _add_lines(load: Load, way: str, section: str) -> None:
    own = dict(re.findall(r"^ +(slat|clat|lat|sync) \((\w+)\): min=", section, re.M))
    for kind, unit in own.items():
        line = re.search(rf"^ +{kind} \({unit}\): (min=.*)$", section, re.M)
        name = f"{way}.{'lat' if kind == 'sync' else kind}"
        for key, short in (("min", "min"), ("max", "max"), ("mean", "avg"), ("stddev", "stdev")):
            value = re.search(rf"{short}= *([\d.]+)([kMG]?)", line[1]) if line else None
            if value:
                load.numbers[f"{name}.{key}"] = printed(value[1], PREFIXES[value[2]] * UNITS_NS[unit])
    for kind, unit, rows in re.findall(
        r"^ +(slat|clat|lat|sync) percentiles \((\w+)\):\n((?: +\|.*\n?)+)", section, re.M
    ):
        if kind in own:
            for share, value in re.findall(r"([\d.]+)th=\[ *(\d+)\]", rows):
                load.numbers[f"{way}.{'lat' if kind == 'sync' else kind}.p{float(share):g}"] = printed(
                    value, UNITS_NS[unit]
                )


def fio_logs(logs: Mapping[str, str]) -> Load:
    """Logs with a line for each request: time in ms, value, direction, size, and more."""
    load = Load(bin_share=1 / 32)
    for name, text in logs.items():
        kind = name.rpartition("_")[2].partition(".")[0]
        rows = [[int(cell, 0) for cell in line.replace(" ", "").split(",")] for line in text.splitlines()]
        for way, code in (("read", 0), ("write", 1)):
            values = [row[1] for row in rows if row[2] == code]
            if not values:
                continue
            if kind.endswith("lat"):
                load.numbers[f"{way}.{kind}.min"] = exact(min(values))
                load.numbers[f"{way}.{kind}.max"] = exact(max(values))
                load.numbers[f"{way}.{kind}.mean"] = exact(sum(values) / len(values))
                load.bins[way, kind, -1] = dict(Counter(values))
            else:
                load.numbers[f"{way}.ios"] = exact(len(values))
                load.numbers[f"{way}.bytes"] = exact(sum(row[3] for row in rows if row[2] == code))
    return load


def fio_json_with_logs(text: str, logs: Mapping[str, str]) -> list[Load]:
    """The results of one job, and of its logs the latencies of which the results have no distribution."""
    (load,), beside = fio_json(text), fio_logs(logs)
    load.bins, load.bin_share = {**beside.bins, **load.bins}, beside.bin_share
    return [load]


# Tools of which the numbers of a whole output are looked for, whatever trial has them


def _numbers(found: Iterable[tuple[str, str, float]]) -> list[tuple[str, Number]]:
    """Name of a metric (a pattern), what is printed, its unit; what is 0 may be too small for its digits."""
    return [(name, printed(text, factor)) for name, text, factor in found if float(text)]


def sysbench(text: str) -> list[tuple[str, Number]]:
    """Version 1.0."""
    found = []
    for part in text.split("Running the test with following options")[1:]:
        cells = [
            (r"read\.iops", r"reads/s: +([\d.]+)", 1.0),
            (r"write\.iops", r"writes/s: +([\d.]+)", 1.0),
            (r"sync\.rate", r"fsyncs/s: +([\d.]+)", 1.0),
            (r"read\.bw", r"read, MiB/s: +([\d.]+)", 2.0**20),
            (r"write\.bw", r"written, MiB/s: +([\d.]+)", 2.0**20),
            (r"event\.rate", r"events per second: +([\d.]+)", 1.0),
            (r"event\.rate", r"Total operations: \d+ \(([\d.]+) per second", 1.0),
            (r"memory\.bw", r"transferred \(([\d.]+) MiB/sec", 2.0**20),
            (r"(event\.time|(read|write|sync)\.lat)\.min", r"^ +min: +([\d.]+)$", 1e6),
            (r"(event\.time|(read|write|sync)\.lat)\.mean", r"^ +avg: +([\d.]+)$", 1e6),
            (r"(event\.time|(read|write|sync)\.lat)\.max", r"^ +max: +([\d.]+)$", 1e6),
            (r"(event\.time|(read|write|sync)\.lat)\.p\d+", r"\dth percentile: +([\d.]+)$", 1e6),
        ]
        for name, pattern, factor in cells:
            found += [(name, match[1], factor) for match in re.finditer(pattern, part, re.M)]
    return _numbers(found)


STRESS_NG = {
    "bogo-ops": ("bogo_ops", 1.0),
    "bogo-ops-per-second-usr-sys-time": ("bogo_ops_cpu_rate", 1.0),
    "bogo-ops-per-second-real-time": ("bogo_ops_real_rate", 1.0),
    "wall-clock-time": ("real_time", 1.0),
    "user-time": ("usr_time", 1.0),
    "system-time": ("sys_time", 1.0),
    "cpu-usage-per-instance": ("cpu_used", 1.0),
    "max-rss": ("rss_max", 1024.0),
}


def stress_ng_yaml(text: str) -> list[tuple[str, Number]]:
    """Each stressor's numbers; those of its own under `extra.`."""
    found = []
    for line in text.partition("\nmetrics:")[2].splitlines():
        if match := re.fullmatch(r" +([\w-]+): ([\d.]+)", line):
            name, factor = STRESS_NG.get(match[1], (r"extra\..*", 1.0))
            found.append((rf"(.*\.|.*/)?{name}", match[2], factor))
    return _numbers(found)


def stress_ng_text(text: str) -> list[tuple[str, Number]]:
    """The table of --metrics-brief or --metrics."""
    found = []
    names = (
        "bogo_ops",
        "real_time",
        "usr_time",
        "sys_time",
        "bogo_ops_real_rate",
        "bogo_ops_cpu_rate",
        "cpu_used",
        "rss_max",
    )
    for line in text.splitlines():
        cells = line.split("] ", 1)[-1].split()
        if "metrc:" in line and len(cells) in (7, 9) and all(re.fullmatch(r"[\d.]+", cell) for cell in cells[1:]):
            found += [
                (rf"(.*\.|.*/)?{name}", cell, 1024.0 if name == "rss_max" else 1.0)
                for name, cell in zip(names, cells[1:], strict=False)
            ]
        elif match := re.search(r"\] \S+ +([\d.]+) (?!.*geometric mean of 0).*\(geome", line):
            found.append((r"(.*\.|.*/)?extra\..*", match[1], 1.0))
    return _numbers(found)


def db_bench(text: str) -> list[tuple[str, Number]]:
    """The line of each benchmark and its histogram."""
    found = []
    for line in re.findall(r"^\w+ +: +.*micros/op.*$", text, re.M):
        for name, pattern, factor in (
            (r".*op_time\.mean|.*lat\.mean", r": +([\d.]+) micros/op", 1e3),
            (r".*ops_rate|.*rate", r"micros/op ([\d.]+) ops/sec", 1.0),
            (r".*ops|.*operations", r"seconds (\d+) operations", 1.0),
            (r".*bw", r"; +([\d.]+) MB/s", 2.0**20),
        ):
            found += [(name, match, factor) for match in re.findall(pattern, line)]
    for low, high in re.findall(r"^Min: (\d+)  Median: [\d.]+  Max: (\d+)$", text, re.M):
        found += [(r".*\.min", low, 1e3), (r".*\.max", high, 1e3)]
    found += [(r".*\.stddev", value, 1e3) for value in re.findall(r"StdDev: ([\d.]+)$", text, re.M)]
    for share, value in re.findall(r"P([\d.]+): ([\d.]+)", text):
        found.append((rf".*\.p{share}", value, 1e3))
    return _numbers(found)


def ioping(text: str) -> list[tuple[str, Number]]:
    """Its last three lines."""
    units = SHORT_UNITS_NS
    found = []
    for rate, prefix, bw, unit in re.findall(
        r"requests completed in .*?, ([\d.]+)(?: ([kMG]))? iops, ([\d.]+) (\w+)/s", text
    ):
        found.append((r"(read|write|total)\.iops", rate, PREFIXES[prefix]))
        found.append((r"(read|write|total)\.bw", bw, PREFIXES[unit[:-1]]))
    for rate, prefix, bw, unit in re.findall(r"generated .*?, ([\d.]+)(?: ([kMG]))? iops, ([\d.]+) (\w+)/s", text):
        found.append((r".*iops|.*rate", rate, PREFIXES[prefix]))
        found.append((r".*bw", bw, PREFIXES[unit[:-1]]))
    for line in re.findall(r"min/avg/max/mdev = (.*)", text):
        for name, (value, unit) in zip(
            ("min", "mean", "max", "stddev"), re.findall(r"([\d.]+) (\w+)", line), strict=True
        ):
            found.append((rf"\w+\.lat\.{name}", value, units[unit]))
    return _numbers(found)


def dd(text: str) -> list[tuple[str, Number]]:
    """Bytes, and their rate."""
    found = []
    for records, seconds in re.findall(r"^(\d+)\+0 records out\n.*, ([\d.e-]+) s,", text, re.M):
        found.append((r"(read|write)\.iops", repr(int(records) / float(seconds)), 1.0))
    for rate, unit in re.findall(r"^\d+ bytes .*?, [\d.e+-]+ s, ([\d.]+) (\w*)B/s$", text, re.M):
        found += [(r".*\.bw", rate, PREFIXES[unit])]
    return _numbers(found)


def bonnie(text: str) -> list[tuple[str, Number]]:
    """The line of values: rates in KiB/s, latencies with their unit; `+++++` is too fast to measure."""
    found = []
    for line in re.findall(r"^1\.98,.*$", text, re.M):
        cells = line.split(",")
        found += [(r".*\.bw", cells[at], 1024.0) for at in (9, 11, 15) if cells[at].isdigit()]
        latencies = filter(None, (re.fullmatch(r"(\d+)(us|ms|s)", cell) for cell in cells))
        found += [(r".*\.max", match[1], SHORT_UNITS_NS[match[2]]) for match in latencies]
    return _numbers(found)


def iozone(text: str) -> list[tuple[str, Number]]:
    """The table of -i and -a: rates in KiB/s."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 4 and all(cell.isdigit() for cell in cells):
            found += [(r".*\.bw", cell, 1024.0) for cell in cells[2:]]
    return _numbers(found)


# Traces


@dataclass
class Trace:
    """Requests as (time in ns, 'read' | 'write' | 'trim', offset, length)."""

    requests: list[tuple[int, str, int, int]]

    def sums(self) -> dict[str, Any]:
        """What `trace info` says of them."""
        own = self.requests
        kinds = {
            kind: {"requests": len(lengths), "bytes": sum(lengths)}
            for kind in ("read", "write", "trim")
            for lengths in [[one[3] for one in own if one[1] == kind]]
        }
        times, pages = (
            [one[0] for one in own],
            {page for _, _, at, size in own for page in range(at // 4096, -(-(at + size) // 4096))},
        )
        return {
            "requests": len(own),
            "kinds": kinds,
            "first_ns": min(times),
            "last_ns": max(times),
            "end_bytes": max(at + size for _, _, at, size in own),
            "distinct_pages": len(pages),
            "min": min(one[3] for one in own),
            "max": max(one[3] for one in own),
            "distinct": len(set(times)),
            "backward": sum(after < before for before, after in pairwise(times)),
        }


def iolog(text: str) -> Trace:
    """fio's, version 2 (waits) or 3 (times in ms; in µs from 3.3x on, as its first line does not say)."""
    found: list[tuple[int, str, int, int]] = []
    for line in text.splitlines()[1:]:
        cells = line.split()
        if "version 3" in text[:40]:
            if len(cells) == 5 and cells[2] in ("read", "write", "trim"):
                found.append((int(cells[0]) * 1000, cells[2], int(cells[3]), int(cells[4])))
        elif len(cells) == 4 and cells[1] in ("read", "write", "trim"):
            found.append((0, cells[1], int(cells[2]), int(cells[3])))
    return Trace(found)
