"""Metrics, distributions and parts from the jobs of one run of fio, merged: fio's own grouping is not used.

Jobs that ran together: volumes add up over the longest run time; latencies merge as distributions do (means weighted
by requests, deviations pooled, bins added), so percentiles come from merged bins and never from other percentiles.
Groups that ran one after the other (`stonewall`): their run times add up as well. Processor time per request includes
threads that fio does not count (`cpu_metrics`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.drivers.fio.fio_results import KINDS, Job, Latency, Results
from ioassay.records.record import Buckets

if TYPE_CHECKING:
    from resource import struct_rusage


PERCENTAGES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_NAMES = {"read": "read", "write": "write", "trim": "trim", "mixed": "total"}
"""`mixed` is what fio reports with unified_rw_reporting."""
_OF_SECTION = ("bw", "iops", "ios", "bytes", "runtime")


def metrics(jobs: Sequence[Job]) -> dict[str, float]:
    """All metrics of jobs taken as one load, named as in `ioassay.metrics`; directions without I/O are left out."""
    found: dict[str, float] = _totals(jobs)
    for direction, name in _NAMES.items():
        ios = sum(job.directions[direction].ios for job in jobs if direction in job.directions)
        if ios:
            found |= {f"{name}.{key}": value for key, value in _of_direction(jobs, direction, ios).items()}
    return found | _processor(jobs)


def _of_direction(jobs: Sequence[Job], direction: str, ios: int) -> dict[str, float]:
    volume = sum(job.directions[direction].bytes for job in jobs if direction in job.directions)
    elapsed_s = _elapsed_s(jobs, (direction,))
    found: dict[str, float] = {"ios": ios, "bytes": volume, "runtime": elapsed_s}
    if elapsed_s > 0:
        found |= {"bw": volume / elapsed_s, "iops": ios / elapsed_s}
    for kind in KINDS:
        latency = _merged(jobs, direction, kind)
        if latency is not None:
            found |= {f"{kind}.{statistic}": value for statistic, value in _statistics(latency).items()}
    return found


def _totals(jobs: Sequence[Job]) -> dict[str, float]:
    done = [found for job in jobs for name, found in job.directions.items() if name != "mixed"]
    ios, volume = sum(found.ios for found in done), sum(found.bytes for found in done)
    elapsed_s = _elapsed_s(jobs, ("read", "write", "trim"))
    if not ios or elapsed_s <= 0:
        return {}
    rates = {"total.bw": volume / elapsed_s, "total.iops": ios / elapsed_s}
    return {**rates, "total.ios": ios, "total.bytes": volume, "total.runtime": elapsed_s}


def _elapsed_s(jobs: Sequence[Job], directions: Sequence[str]) -> float:
    """The longest run time of each stage, added up."""
    longest: dict[int, float] = {}
    for stage, job in _staged(jobs):
        times_s = [job.directions[name].runtime_s for name in directions if name in job.directions]
        longest[stage] = max([longest.get(stage, 0.0), *times_s])
    return sum(longest.values())


def _staged(jobs: Sequence[Job]) -> list[tuple[int, Job]]:
    """Jobs with the number of their stage: a new group waits for the one before, unless it is only a `new_group`."""
    staged: list[tuple[int, Job]] = []
    stage, group = 0, None
    for job in jobs:
        together = "new_group" in job.options and "stonewall" not in job.options
        if group is not None and job.group != group and not together:
            stage += 1
        group = job.group
        staged.append((stage, job))
    return staged


def _merged(jobs: Sequence[Job], direction: str, kind: str) -> Latency | None:
    found = [
        job.directions[direction].latencies[kind]
        for job in jobs
        if direction in job.directions and kind in job.directions[direction].latencies
    ]
    return merge_latencies(found) if found else None


def merge_latencies(found: Sequence[Latency]) -> Latency:
    """Latencies of several jobs as of one. Percentiles of fio's own survive only where there is one job."""
    if len(found) == 1:
        return found[0]
    count = sum(latency.count for latency in found)
    mean = sum(latency.mean_ns * latency.count for latency in found) / count
    squares = sum(
        latency.stddev_ns**2 * (latency.count - 1) + latency.count * (latency.mean_ns - mean) ** 2 for latency in found
    )
    bins: dict[int, int] = {}
    if all(latency.bins for latency in found):
        for latency in found:
            for value_ns, number in latency.bins.items():
                bins[value_ns] = bins.get(value_ns, 0) + number
    return Latency(
        count=count,
        mean_ns=mean,
        stddev_ns=math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
        min_ns=min(latency.min_ns for latency in found),
        max_ns=max(latency.max_ns for latency in found),
        bins=bins,
    )


def _statistics(latency: Latency) -> dict[str, float]:
    found = {"mean": latency.mean_ns, "stddev": latency.stddev_ns, "min": latency.min_ns, "max": latency.max_ns}
    return found | {f"p{share:g}": value for share, value in percentiles_ns(latency).items()}


def percentiles_ns(latency: Latency) -> Mapping[float, float]:
    """`PERCENTAGES` of a latency from its bins; where it has none, those of them that fio computed."""
    if not latency.bins:
        return {share: value for share, value in latency.percentiles_ns.items() if share in PERCENTAGES}
    from ioassay._core import Histogram

    values_ns = sorted(latency.bins)
    histogram = Histogram.from_buckets(values_ns, [latency.bins[value_ns] for value_ns in values_ns])
    return dict(zip(PERCENTAGES, histogram.quantiles([share / 100 for share in PERCENTAGES]), strict=True))


def _processor(jobs: Sequence[Job]) -> dict[str, float]:
    """usr and sys in % of one processor while the load ran (200 is two of them); counts of all jobs."""
    elapsed_s = _elapsed_s(jobs, tuple(_NAMES))
    found: dict[str, float] = {}
    if elapsed_s > 0:
        for state in ("usr", "sys"):
            busy = sum(job.cpu.get(state, 0.0) * job.runtime_s for job in jobs)
            found[f"cpu.{state}"] = busy / elapsed_s
    for count in ("context_switches", "major_faults", "minor_faults"):
        found[count] = sum(job.cpu.get(count, 0.0) for job in jobs)
    return found


def by_section(jobs: Sequence[Job]) -> dict[str, float]:
    """`<section>/<metric>` for each section of a job file that has several."""
    names = list(dict.fromkeys(job.name for job in jobs))
    if len(names) < 2:
        return {}
    found: dict[str, float] = {}
    for name in names:
        of_section = metrics([job for job in jobs if job.name == name])
        found |= {f"{name}/{key}": value for key, value in of_section.items() if _is_told(key)}
    return found


def _is_told(key: str) -> bool:
    direction, _, quantity = key.partition(".")
    return direction in _NAMES.values() and (quantity in _OF_SECTION or quantity.startswith(KINDS))


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
            latency = _merged(jobs, direction, kind)
            if latency is not None and latency.bins:
                values_ns = sorted(latency.bins)
                found.append(Buckets(name, kind, values_ns, [latency.bins[value] for value in values_ns], number))
    return found


def parts(results: Results) -> list[dict[str, Any]]:
    """One part a job where there are several, and one a disk with the kernel's raw counts as fio read them."""
    found: list[dict[str, Any]] = []
    if len(results.jobs) > 1:
        names = [job.name for job in results.jobs]
        for number, job in enumerate(results.jobs):
            name = job.name if names.count(job.name) == 1 else f"{job.name}.{names[:number].count(job.name)}"
            found.append({"name": name, "job": number, "metrics": metrics([job])})
    for disk in results.disks:
        counts = {key: float(value) for key, value in disk.items() if isinstance(value, int | float)}
        found.append({"name": f"disk {disk.get('name', '?')}", "metrics": counts})
    return found


_START_S = 0.16
"""fio 3.33 with 1 to 4 jobs of one request: nearly all of it the calibration of its clock, which takes a fixed time."""
_LEAST_S = 0.05
"""Less than this is how far the start varies on busy processors."""


def cpu_metrics(jobs: Sequence[Job], found: Mapping[str, float], usage: struct_rusage | None) -> dict[str, float]:
    """`cpu.per_io` (ns) and `cpu.uncounted` (% of one processor); `found` are the metrics of all jobs together."""
    ios, elapsed_s = found.get("total.ios", 0.0), found.get("total.runtime", 0.0)
    if usage is None or not ios or not elapsed_s:
        return {}
    own_s = sum(job.cpu.get(state, 0.0) / 100 * job.runtime_s for job in jobs for state in ("usr", "sys"))
    beside_s = usage.ru_utime + usage.ru_stime - own_s - _START_S
    beside_s = beside_s if beside_s >= _LEAST_S else 0.0
    return {"cpu.per_io": (own_s + beside_s) / ios * 1e9, "cpu.uncounted": beside_s / elapsed_s * 100}
