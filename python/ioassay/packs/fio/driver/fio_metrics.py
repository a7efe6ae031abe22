"""Metrics, distributions and parts from the jobs of one run of fio, merged: fio's own grouping is not used.

Jobs that ran together: volumes add up over the longest run time, and latencies merge as distributions do
(`formats.fio_results`). Groups that ran one after the other (`stonewall`): their run times add up as well. Processor
time per request includes threads that fio does not count (`cpu_metrics`). At the end: the rates of a running fio.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay._core import Histogram
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.fio.claims.fio_results import KINDS, Job, Latency, Results, elapsed_s, in_direction, merged_latency
from ioassay.packs.fio.driver.section import SPDK
from ioassay.records.record import Buckets
from ioassay.roles import Rates

if TYPE_CHECKING:
    from resource import struct_rusage


_NAMES = {"read": "read", "write": "write", "trim": "trim", "mixed": "total"}
"""`mixed` is what fio reports with unified_rw_reporting."""
_OF_SECTION = ("bw", "iops", "ios", "bytes", "runtime")


def metrics(jobs: Sequence[Job]) -> dict[str, float]:
    """All metrics of jobs taken as one load, named as in `ioassay.metrics`; directions without I/O are left out."""
    done = [found for job in jobs for name, found in job.directions.items() if name != "mixed"]
    ios, volume = sum(found.ios for found in done), sum(found.bytes for found in done)
    took_s = elapsed_s(jobs, ("read", "write", "trim"))
    found: dict[str, float] = {}
    if ios and took_s > 0:
        found = {"total.bw": volume / took_s, "total.iops": ios / took_s}
        found |= {"total.ios": ios, "total.bytes": volume, "total.runtime": took_s}
    for direction, name in _NAMES.items():
        ios = sum(part.ios for part in in_direction(jobs, direction))
        if ios:
            found |= {f"{name}.{key}": value for key, value in _of_direction(jobs, direction, ios).items()}
    return found | _processor(jobs)


def _of_direction(jobs: Sequence[Job], direction: str, ios: int) -> dict[str, float]:
    volume = sum(part.bytes for part in in_direction(jobs, direction))
    took_s = elapsed_s(jobs, (direction,))
    found: dict[str, float] = {"ios": ios, "bytes": volume, "runtime": took_s}
    if took_s > 0:
        found |= {"bw": volume / took_s, "iops": ios / took_s}
    for kind in KINDS:
        if latency := merged_latency(jobs, direction, kind):
            shares = {percentile_name(percent): value for percent, value in percentiles_ns(latency).items()}
            found |= {f"{kind}.{name}": value for name, value in (latency.statistics_ns | shares).items()}
    return found


def percentiles_ns(latency: Latency) -> Mapping[float, float]:
    """`PERCENTILES` of a latency from its bins; where it has none, those of them that fio computed."""
    if not latency.bins:
        return {percent: value for percent, value in latency.percentiles_ns.items() if percent in PERCENTILES}

    values_ns = sorted(latency.bins)
    histogram = Histogram.from_buckets(values_ns, [latency.bins[value_ns] for value_ns in values_ns])
    return dict(zip(PERCENTILES, histogram.quantiles([percent / 100 for percent in PERCENTILES]), strict=True))


def _processor(jobs: Sequence[Job]) -> dict[str, float]:
    """usr and sys in % of one processor while the load ran (200 is two of them); counts of all jobs."""
    counts = {
        "context_switches": sum(job.cpu.context_switches for job in jobs),
        "major_faults": sum(job.cpu.major_faults for job in jobs),
        "minor_faults": sum(job.cpu.minor_faults for job in jobs),
    }
    took_s = elapsed_s(jobs, tuple(_NAMES))
    if took_s <= 0:
        return counts
    usr = sum(job.cpu.usr_percent * job.runtime_s for job in jobs) / took_s
    system = sum(job.cpu.sys_percent * job.runtime_s for job in jobs) / took_s
    return {"cpu.usr": usr, "cpu.sys": system, **counts}


def by_section(jobs: Sequence[Job]) -> dict[str, float]:
    """`<section>/<metric>` for each section of a job file that has several."""
    names = list(dict.fromkeys(job.name for job in jobs))
    if len(names) < 2:
        return {}
    found: dict[str, float] = {}
    for name in names:
        of_section = metrics([job for job in jobs if job.name == name])
        for key, value in of_section.items():
            direction, _, quantity = key.partition(".")
            if direction in _NAMES.values() and (quantity in _OF_SECTION or quantity.startswith(KINDS)):
                found[f"{name}/{key}"] = value
    return found


def buckets(jobs: Sequence[Job]) -> list[Buckets]:
    """Distributions of all jobs merged, then of each where there are several."""
    found = _buckets_of(jobs, -1)
    if len(jobs) > 1:
        found += [one for number, job in enumerate(jobs) for one in _buckets_of([job], number)]
    return found


def _buckets_of(jobs: Sequence[Job], number: int) -> list[Buckets]:
    found = []
    for direction, name in _NAMES.items():
        for kind in KINDS:
            latency = merged_latency(jobs, direction, kind)
            if latency is not None and latency.bins:
                values_ns = sorted(latency.bins)
                found.append(Buckets(name, kind, values_ns, [latency.bins[value] for value in values_ns], number))
    return found


def parts(results: Results) -> list[dict[str, Any]]:
    """One part a job where there are several, and one a disk with the kernel's raw counts as fio read them."""
    found: list[dict[str, Any]] = []
    if len(results.jobs) > 1:
        names = [_titled(job.name, job.client) for job in results.jobs]
        for number, (name, job) in enumerate(zip(names, results.jobs, strict=True)):
            title = name if names.count(name) == 1 else f"{name}.{names[:number].count(name)}"
            found.append({"name": title, "job": number, "metrics": metrics([job])})
    disks = [
        {"name": f"disk {_titled(disk.name, disk.client)}", "metrics": dict(disk.counts)} for disk in results.disks
    ]
    return found + disks


def _titled(name: str, client: str) -> str:
    return f"{name} of {client}" if client else name


_START_S = 0.16
"""fio 3.33 with 1 to 4 jobs of one request: nearly all of it the calibration of its clock, which takes a fixed time."""
_LEAST_S = 0.05
"""Less than this is how far the start varies on busy processors."""


def cpu_metrics(jobs: Sequence[Job], found: Mapping[str, float], usage: struct_rusage | None) -> dict[str, float]:
    """`cpu.per_io` (ns) and `cpu.uncounted` (% of one processor); `found` are the metrics of all jobs together."""
    ios, took_s = found.get("total.ios", 0.0), found.get("total.runtime", 0.0)
    if usage is None or not ios or not took_s:
        return {}
    own_s = sum((job.cpu.usr_percent + job.cpu.sys_percent) / 100 * job.runtime_s for job in jobs)
    beside_s = usage.ru_utime + usage.ru_stime - own_s - _START_S
    # A plugin starts its own environment, in a time that differs by machine. All threads of load are fio's.
    known = not any(job.options.get("ioengine", "").rpartition("/")[2] in SPDK for job in jobs)
    beside_s = beside_s if known and beside_s >= _LEAST_S else 0.0
    return {"cpu.per_io": (own_s + beside_s) / ios * 1e9, "cpu.uncounted": beside_s / took_s * 100}


# The status lines that a running fio writes about once a second (`--eta=always`), computed in a thread of its main
# process from counters that its jobs keep anyway (`calc_thread_status` in eta.c). Not those of `--status-interval`:
# they are means since the start, each job stops for getrusage(2), run times of running jobs change in place meanwhile
# (`__show_running_run_stats` in stat.c), and whole documents are added to the file of the results.

_PREFIXES = "kMGTPE"
_NUMBER = re.compile(r"[rwt]=([\d.]+)([kKMGTPE]?)(i?)(B/s|bit/s|)")
_LISTS = re.compile(r"\]\[((?:[rwt]=[^,\]]+,?)+)\]\[((?:[rwt]=[^,\] ]+,?)+) IOPS\]\[eta ")


def rates(output: str) -> Rates | None:
    """The rates of the last status that is complete, directions together.

    `Jobs: 1 (f=1): [m(1)][50.0%][r=3015MiB/s,w=31MiB/s][r=772k,w=8k IOPS][eta 00m:03s]\\r`. A line that is as complete
    and has no rates is that of jobs that did nothing. None before fio knows how long it will run: in its first three
    seconds.
    """
    lines = output.replace("\n", "\r").split("\r")[:-1]  # the rest is still being written
    last = next((line for line in reversed(lines) if line), "")
    if lists := _LISTS.search(last):
        return Rates(iops=_sum(lists[2]), bytes_per_s=_sum(lists[1]))
    return Rates(0.0, 0.0) if re.search(r"%\]\[eta ", last) else None


def _sum(numbers: str) -> float:
    return math.fsum(
        float(digits)
        * (1024 if binary else 1000) ** (_PREFIXES.index(prefix.replace("K", "k")) + 1 if prefix else 0)
        / (8 if unit == "bit/s" else 1)
        for digits, prefix, binary, unit in _NUMBER.findall(numbers)
    )
