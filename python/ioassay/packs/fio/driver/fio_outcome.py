"""Whether a run of fio was a measurement. fio exits 0 when it refuses a mounted disk and when it does nothing at all.

A trial is ok only if fio ended by itself with status 0, no job has an error, every direction that was asked for did
I/O, and the run time is about the one asked for. Otherwise the reason quotes fio and says what to try.
Latencies that cannot be, a part of a request's time longer than the whole, are warnings.
"""

from __future__ import annotations

import errno
import math
import re
import signal
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay._core import Histogram
from ioassay.metrics import PERCENTILES, percentile_name
from ioassay.packs.fio.claims.fio_results import (
    KINDS,
    SYNC,
    Direction,
    Job,
    Latency,
    Results,
    elapsed_s,
    error_words,
    in_direction,
    merged_latency,
)
from ioassay.packs.fio.fio_options import SPDK, Section
from ioassay.records.record import Buckets, Warning_
from ioassay.roles import Outcome, Rates

if TYPE_CHECKING:
    from resource import struct_rusage


LEAST_SHARE_OF_RUNTIME = 0.9
_MOST_SHARE_OF_RUNTIME, _MOST_OVERRUN_S = 1.2, 1.0
_REFILL_BYTES_PER_S = 2e9
"""Bandwidth of one job from which on making fresh data is seen: fio 3.33 fills 4 to 5 GB/s on a common core."""
_EMPTY = re.compile(r"\s*(note:|valid values|:|\{|\}|[\w/ .]+ : )")
"""Lines that say nothing of what went wrong."""


@dataclass(frozen=True)
class Verdict:
    """`reason` is empty when the trial is ok."""

    reason: str
    warnings: Sequence[Warning_] = ()
    cannot: bool = False
    """Nothing went wrong: the path to the target cannot do what was asked for, and said so before any I/O."""


def judge(
    results: Results | None, jobs: Sequence[Section], outcome: Outcome, messages: str, unreadable: str = ""
) -> Verdict:
    """The verdict on one run: `messages` is fio's stderr, `unreadable` says why there are no `results`."""
    if results is not None and results.messages:
        messages = f"{messages}\n{results.messages}"
    exited = f"fio exited with status {outcome.exit_code}" if outcome.exit_code else ""
    if results is None:
        return Verdict(_explained(_ended_badly(outcome, messages) or exited or unreadable, messages))
    done = results.jobs
    if why := _unpolled(done, jobs, outcome):
        return Verdict(why, cannot=True)
    said: dict[str, None] = {}
    for job in done:
        if job.error and not _goes_on(job):
            # fio 3.33 has no word for a refusal that may be the engine's.
            refused = job.error in (errno.EPERM, errno.ENOSYS) and job.options.get("ioengine") == "io_uring"
            title = f"job {job.name}{' of ioengine io_uring' if refused else ''}"
            said[f"{title} ended with error {job.error}: {error_words(job.error)}"] = None
    reason = _ended_badly(outcome, messages) or "; ".join(said) or exited or _idle(done, jobs)
    for job, wanted_s in _timed(done, jobs) if not reason else ():
        if _ran_s(job) < LEAST_SHARE_OF_RUNTIME * wanted_s:
            reason = f"job {job.name} ran {_ran_s(job):.3g} s of the {wanted_s:.3g} s asked for"
            break
    return Verdict(_explained(reason, messages)) if reason else Verdict("", tuple(_suspicions(done, jobs, messages)))


def _unpolled(done: Sequence[Job], asked: Sequence[Section], outcome: Outcome) -> str:
    """EOPNOTSUPP for the first request of jobs that poll: the kernel's word for a path without polled queues.

    A file system says so by lacking `iopoll` (io_uring's io_rw_init_file), as FUSE does; a device by having no polled
    queue. A job that read before, or was not to read and wrote, failed for another reason: beside reads that are
    refused, writes may go through: file systems do not poll for those that need work at their end
    (iomap_dio_bio_iter of fs/iomap/direct-io.c). The refused request itself fio counts as one.
    """
    polled = {section.title: section.directions for section in asked if section.polled}
    failed = [job for job in done if job.error]
    if outcome.timed_out or not failed or not all(job.name in polled for job in failed):
        return ""
    for job in failed:
        moved = {name: direction.bytes for name, direction in job.directions.items()}
        in_polled = ("read", "mixed") if "read" in polled[job.name] else (*moved,)
        if job.error != errno.EOPNOTSUPP or any(moved.get(name) for name in in_polled):
            return ""
    return (
        "the path to the target cannot be polled for completions (hipri): the kernel says EOPNOTSUPP to the first "
        "request. It takes a file system and a device that can, such as XFS on NVMe with nvme.poll_queues=4; or hipri=0"
    )


def _ended_badly(outcome: Outcome, messages: str) -> str:
    """A time-out, or a signal: fio takes SIGTERM, writes what it has and exits with 128."""
    if outcome.timed_out:
        return f"fio timed out after {units.format_duration(outcome.duration_s)} and was ended; raise run.timeout"
    if outcome.signal is not None:
        return f"fio was ended by {signal.Signals(outcome.signal).name}"
    taken = re.search(r"terminating on signal (\d+)", messages)
    return f"fio was ended by {signal.Signals(int(taken[1])).name}" if taken else ""


def _goes_on(job: Job) -> bool:
    """Whether it was told to continue after errors, and did: fio reports the first one all the same. Data that do not
    verify (EILSEQ) are another matter."""
    return job.options.get("continue_on_error", "none") != "none" and job.error != errno.EILSEQ


def _idle(done: Sequence[Job], asked: Sequence[Section]) -> str:
    """Directions without a single request; fio says nothing when it refuses or has nothing to do."""
    if not done:
        return "fio ran no job"
    for direction in ("read", "write", "trim"):
        # A job with unified reporting hides which requests are in a direction, so all of them count.
        in_it = sum(found.ios for job in done for name, found in job.directions.items() if name in (direction, "mixed"))
        if any(direction in job.directions for job in asked) and not in_it:
            return f"fio did no {direction} at all, though it was asked for"
    wanted = {section.title: section.directions for section in reversed(asked)}
    idle = next((job.name for job in done if not job.ios and wanted.get(job.name, frozenset({"any"}))), None)
    return "" if idle is None else f"job {idle} did no I/O at all"


def _ran_s(job: Job) -> float:
    """The longest run time of its directions. With group_reporting `job_runtime` is the sum of the group's."""
    return max((found.runtime_s for found in job.directions.values() if found.ios), default=job.runtime_s)


def _timed(done: Sequence[Job], asked: Sequence[Section]) -> Iterator[tuple[Job, float]]:
    """Jobs that should have run for a known time, with that time."""
    if any("exitall" in section.options or "exitall_on_error" in section.options for section in asked):
        return  # the first job to end ends all others
    for job in done:
        for section in asked:
            if section.title == job.name and section.must_run_s is not None:
                yield job, section.must_run_s


def _explained(reason: str, messages: str) -> str:
    """The reason, fio's first words, and the remedy that fits them."""
    lines = [line.strip() for line in dict.fromkeys(messages.splitlines()) if line.strip() and not _EMPTY.match(line)]
    said = f"; fio says: {' / '.join(lines[:3])[:400]}" if lines else ""
    remedies = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text(encoding="utf-8"))
    printed = f"{messages}\n{reason}"
    remedy = next((advice for pattern, advice in remedies.items() if re.search(pattern, printed, re.I)), "")
    return f"{reason}{said}" + (f"; {remedy}" if remedy else "")


def _suspicions(done: Sequence[Job], asked: Sequence[Section], messages: str) -> Iterator[Warning_]:
    for line in dict.fromkeys(line.strip() for line in messages.splitlines() if line.strip()):
        if "synchronous I/O engine" in line:
            yield Warning_("iodepth-ignored", line, "use ioengine = 'libaio' or 'io_uring', or numjobs")
        else:
            yield Warning_("fio-note", line)
    if failed := [job for job in done if job.error and _goes_on(job)]:
        text = f"job {failed[0].name} continued after errors, the first of which was: {error_words(failed[0].error)}"
        yield Warning_("requests-failed", text, "the record's claims have their number; dmesg may have the cause")
    if unsteady := next((job for job in done if job.unsteady), None):
        text = f"job {unsteady.name}: steady state ({unsteady.unsteady}) was not attained"
        yield Warning_("steady-state-not-attained", text, "raise runtime, or precondition the drive first")
    for job, wanted_s in _timed(done, asked):
        if _ran_s(job) > _MOST_SHARE_OF_RUNTIME * wanted_s + _MOST_OVERRUN_S:
            text = f"job {job.name} ran {_ran_s(job):.3g} s instead of {wanted_s:.3g} s: requests took very long"
            yield Warning_("over-run", text, "look at the latencies' maxima and at dmesg")
            break
    refilled = [job.directions.get("write") for job in done if job.options.get("refill_buffers", "0") != "0"]
    if any(one and one.bytes > _REFILL_BYTES_PER_S * one.runtime_s > 0 for one in refilled):
        text = "writing is so fast that making fresh data for each request may limit it"
        yield Warning_("refill-limits", text, "use more jobs, or set refill_buffers = 0 if the drive does not compress")


_ROOM = 2.0
"""Maxima of parts and whole are of different clocks' readings; what is wrong is so by orders of magnitude."""


def without_impossible(results: Results) -> tuple[Results, list[Warning_]]:
    """The results without such latencies, and a warning that says which."""
    gone: dict[str, None] = {}
    jobs = []
    for job in results.jobs:
        kept: dict[str, Direction] = {}
        for name, direction in job.directions.items():
            own = direction.latencies
            most_ns = _ROOM * own["lat"].max_ns if "lat" in own else math.inf
            bad = [kind for kind in ("slat", "clat") if kind in own and own[kind].max_ns > most_ns]
            gone |= dict.fromkeys(bad)
            kept[name] = replace(direction, latencies={kind: one for kind, one in own.items() if kind not in bad})
        jobs.append(replace(job, directions=kept))
    if not gone:
        return results, []
    text = f"fio's {' and '.join(gone)} is longer than requests took as a whole, so it is left out"
    remedy = "use the total latency (lat); with sqthread_poll fio cannot tell submission from completion"
    return replace(results, jobs=jobs), [Warning_("impossible-latency", text, remedy)]


# Metrics, distributions and parts from the jobs of one run of fio, merged: fio's own grouping is not used. Jobs that
# ran together: volumes add up over the longest run time, and latencies merge as distributions do (`fio_results`).
# Groups that ran one after the other (`stonewall`): their run times add up as well. Processor time per request includes
# threads that fio does not count (`cpu_metrics`).

_NAMES = {"read": "read", "write": "write", "trim": "trim", "mixed": "total", SYNC: SYNC}
"""`mixed` is what fio reports with unified_rw_reporting."""
_OF_SECTION = ("bw", "iops", "ios", "bytes", "runtime")
_COUNTS = ("context_switches", "major_faults", "minor_faults")


def metrics(jobs: Sequence[Job]) -> dict[str, float]:
    """All metrics of jobs taken as one load, named as in `ioassay.metrics`; directions without I/O are left out.

    cpu.usr and cpu.sys are in % of one processor while the load ran (200 is two of them); counts are those of all jobs.
    """
    done = [found for job in jobs for name, found in job.directions.items() if name != "mixed"]
    total = _volumes(jobs, "total", ("read", "write", "trim"), done)
    found = total if "total.bw" in total else {}
    for direction, name in _NAMES.items():
        own = in_direction(jobs, direction)
        if any(part.ios for part in own):
            found |= _volumes(jobs, name, (direction,), own)
        elif direction != SYNC:
            continue
        for kind in dict.fromkeys((*KINDS, *(kind for part in own for kind in part.latencies))):
            if latency := merged_latency(jobs, direction, kind):
                shares = {percentile_name(percent): ns for percent, ns in percentiles_ns(latency).items()}
                values, (whose, slash, plain) = latency.statistics_ns | shares, kind.rpartition("/")
                found |= {f"{whose}{slash}{name}.{plain}.{key}": ns for key, ns in values.items()}
    if syncs := sum(job.timed_syncs for job in jobs):
        found["sync.ios"] = syncs
    if (took_s := elapsed_s(jobs, tuple(_NAMES))) > 0:
        found["cpu.usr"] = sum(job.cpu.usr_percent * job.runtime_s for job in jobs) / took_s
        found["cpu.sys"] = sum(job.cpu.sys_percent * job.runtime_s for job in jobs) / took_s
    found |= jobs[0].measured if len(jobs) == 1 else {}
    return found | {name: sum(getattr(job.cpu, name) for job in jobs) for name in _COUNTS}


def _volumes(
    jobs: Sequence[Job], name: str, directions: tuple[str, ...], parts: Sequence[Direction]
) -> dict[str, float]:
    ios, volume = sum(part.ios for part in parts), sum(part.bytes for part in parts)
    took_s = elapsed_s(jobs, directions)
    rates = {f"{name}.bw": volume / took_s, f"{name}.iops": ios / took_s} if ios and took_s > 0 else {}
    return {f"{name}.ios": ios, f"{name}.bytes": volume, f"{name}.runtime": took_s, **rates}


def percentiles_ns(latency: Latency) -> Mapping[float, float]:
    """Those that fio computed, and from the bins, if it has any, those of `PERCENTILES` that fio did not."""
    missing = [percent for percent in PERCENTILES if percent not in latency.percentiles_ns] if latency.bins else []
    values_ns = sorted(latency.bins)
    histogram = Histogram.from_buckets(values_ns, [latency.bins[value_ns] for value_ns in values_ns])
    computed = dict(zip(missing, histogram.quantiles([percent / 100 for percent in missing]), strict=True))
    return {**latency.percentiles_ns, **computed}


def by_section(jobs: Sequence[Job]) -> dict[str, float]:
    """`<section>/<metric>` for each section of a job file that has several."""
    names = list(dict.fromkeys(job.name for job in jobs))
    found: dict[str, float] = {}
    for name in names if len(names) > 1 else ():
        for key, value in metrics([job for job in jobs if job.name == name]).items():
            direction, _, quantity = key.rpartition("/")[2].partition(".")
            if direction in _NAMES.values() and (quantity in _OF_SECTION or quantity.startswith(KINDS)):
                found[f"{name}/{key}"] = value
    return found


def buckets(jobs: Sequence[Job]) -> list[Buckets]:
    """Distributions of all jobs merged, then of each where there are several."""
    found = []
    for number, part in [(-1, jobs), *(enumerate([job] for job in jobs) if len(jobs) > 1 else ())]:
        for (direction, name), kind in product(_NAMES.items(), KINDS):
            latency = merged_latency(part, direction, kind)
            if latency is not None and latency.bins:
                values_ns = sorted(latency.bins)
                found.append(Buckets(name, kind, values_ns, [latency.bins[value] for value in values_ns], number))
    return found


def parts(results: Results) -> list[dict[str, Any]]:
    """One part a job where there are several, and one a disk with the kernel's raw counts as fio read them."""
    found: list[dict[str, Any]] = []
    if len(results.jobs) > 1:
        names = [f"{job.name} of {job.client}" if job.client else job.name for job in results.jobs]
        for number, (name, job) in enumerate(zip(names, results.jobs, strict=True)):
            title = name if names.count(name) == 1 else f"{name}.{names[:number].count(name)}"
            found.append({"name": title, "job": number, "metrics": metrics([job])})
    for disk in results.disks:
        title = f"disk {disk.name} of {disk.client}" if disk.client else f"disk {disk.name}"
        found.append({"name": title, "metrics": dict(disk.counts)})
    return found


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
