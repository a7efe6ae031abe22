"""Whether a run of fio was a measurement. fio exits 0 when it refuses a mounted disk and when it does nothing at all.

A trial is ok only if fio ended by itself with status 0, no job has an error, every direction that was asked for did
I/O, and the run time is about the one asked for. Otherwise the reason quotes fio and says what to try.
Latencies that cannot be, a part of a request's time longer than the whole, are warnings.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ioassay import units
from ioassay.packs.fio.claims.fio_results import Direction, Job, Results
from ioassay.packs.fio.driver.section import Section
from ioassay.records.record import Warning_
from ioassay.roles import Outcome

LEAST_SHARE_OF_RUNTIME = 0.9
_MOST_SHARE_OF_RUNTIME, _MOST_OVERRUN_S = 1.2, 1.0
_REFILL_BYTES_PER_S = 2e9
"""Bandwidth of one job from which on making fresh data is seen: fio 3.33 fills 4 to 5 GB/s on a common core."""
_ANY = frozenset({"any"})
_EMPTY = re.compile(r"\s*(note:|valid values|:|\{|\}|[\w/ .]+ : )")
"""Lines that say nothing of what went wrong."""
_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"appears mounted", "fio refuses to write to a mounted disk: unmount it, or choose another target"),
    (r"bad ioops version|/spdk_\w+ not loadable", "the plugin is none of the installed fio's: build SPDK with "
     "./configure --with-fio=<fio's sources, of the installed version>, and look at fio --version"),
    (r"not loadable|failed to load engine", "this fio lacks the engine: fio --enghelp lists those it has"),
    (r"bad option|unrecognized option|failed parsing", "correct the option: fio --cmdhelp=NAME explains it"),
    (r"io_uring\.c|of ioengine io_uring", "io_uring may be disabled: see sysctl kernel.io_uring_disabled, of a "
     "container also its seccomp profile (--security-opt seccomp=…), or use ioengine = 'libaio'"),
    (r"smalloc|shmget|shmat", "fio ran out of shared memory: lower numjobs, or raise kernel.shmmax"),
    (r"you need to specify size", "set size, or give a target of known size"),
    (r"err=\s*22\b|Invalid argument", "the file system may not take direct I/O, or not in blocks of this size: "
     "set direct = 0, use a multiple of the sector size, or another path"),
    (r"err=\s*28\b|No space left", "the disk is full: free some space, or lower target.size"),
    (r"err=\s*16\b|resource busy", "something else uses it: unmount it or stop that program"),
    (r"err=\s*24\b|Too many open files", "raise the limit of open files: ulimit -n 65536"),
    (r"err=\s*(1|13)\b|Permission denied|not permitted", "run as root, or choose a path that you may use"),
    (r"err=\s*38\b|not implemented", "this kernel lacks what the engine needs: use ioengine = 'libaio' or 'psync'"),
    (r"err=\s*(25|95)\b|Inappropriate ioctl|not supported", "the target cannot do this request, for example trim"),
    (r"err=\s*11\b|temporarily unavailable", "raise fs.aio-max-nr, or lower iodepth or numjobs"),
    (r"err=\s*12\b|Cannot allocate", "lower iodepth, numjobs or bs, or raise the memory limit: ulimit -l unlimited"),
    (r"err=\s*84\b|verify:|multibyte", "data came back wrong: check the disk before you trust it"),
    (r"err=\s*5\b|Input/output error", "the disk reports an error: see dmesg"),
    (r"err=\s*30\b|Read-only file system", "mount it writable, or choose another path"),
    (r"err=\s*2\b|No such file", "the path does not exist: check the target"),
)  # fmt: skip


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
    reason = _ended_badly(outcome, messages) or _errors(done) or exited or _idle(done, jobs)
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
        return f"fio did not end within {units.format_duration(outcome.duration_s)} and was ended; raise run.timeout"
    if outcome.signal is not None:
        return f"fio was ended by {signal.Signals(outcome.signal).name}"
    taken = re.search(r"terminating on signal (\d+)", messages)
    return f"fio was ended by {signal.Signals(int(taken[1])).name}" if taken else ""


def _errors(jobs: Sequence[Job]) -> str:
    said: dict[str, None] = {}
    for job in jobs:
        if job.error and not _goes_on(job):
            # fio 3.33 has no word for a refusal that may be the engine's.
            refused = job.error in (errno.EPERM, errno.ENOSYS) and job.options.get("ioengine") == "io_uring"
            title = f"job {job.name}{' of ioengine io_uring' if refused else ''}"
            said[f"{title} ended with error {job.error} ({os.strerror(job.error)})"] = None
    return "; ".join(said)


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
        in_it = [found for job in done for name, found in job.directions.items() if name in (direction, "mixed")]
        if any(direction in job.directions for job in asked) and not sum(found.ios for found in in_it):
            return f"fio did no {direction} at all, though it was asked for"
    wanted = {section.title: section.directions for section in reversed(asked)}
    if idle := [job.name for job in done if not job.ios and wanted.get(job.name, _ANY)]:
        return f"job {idle[0]} did no I/O at all"
    return "" if sum(job.ios for job in done) or not any(job.directions for job in asked) else "fio did no I/O at all"


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
    remedy = next((advice for pattern, advice in _REMEDIES if re.search(pattern, f"{messages}\n{reason}", re.I)), "")
    return f"{reason}{said}" + (f"; {remedy}" if remedy else "")


def _suspicions(done: Sequence[Job], asked: Sequence[Section], messages: str) -> Iterator[Warning_]:
    for line in dict.fromkeys(line.strip() for line in messages.splitlines() if line.strip()):
        if "synchronous I/O engine" in line:
            yield Warning_("iodepth-ignored", line, "use ioengine = 'libaio' or 'io_uring', or numjobs")
        else:
            yield Warning_("fio-note", line)
    if failed := [job for job in done if job.error and _goes_on(job)]:
        text = f"job {failed[0].name} continued after errors, the first of which was: {os.strerror(failed[0].error)}"
        yield Warning_("requests-failed", text, "the record's claims have their number; dmesg may have the cause")
    for job in done:
        if job.steady is not None and not job.steady.attained:
            text = f"job {job.name}: steady state ({job.steady.criterion}) was not attained"
            yield Warning_("steady-state-not-attained", text, "raise runtime, or precondition the drive first")
            break
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
            own, whole = direction.latencies, direction.latencies.get("lat")
            bad = [
                kind for kind in ("slat", "clat") if whole and kind in own and own[kind].max_ns > _ROOM * whole.max_ns
            ]
            gone |= dict.fromkeys(bad)
            kept[name] = replace(direction, latencies={kind: one for kind, one in own.items() if kind not in bad})
        jobs.append(replace(job, directions=kept))
    if not gone:
        return results, []
    text = f"fio's {' and '.join(gone)} is longer than requests took as a whole, so it is left out"
    remedy = "use the total latency (lat); with sqthread_poll fio cannot tell submission from completion"
    return replace(results, jobs=jobs), [Warning_("impossible-latency", text, remedy)]
