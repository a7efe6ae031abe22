"""Random jobs of fio. What is drawn may be refused by fio: the battery keeps those that fio ends with 0.

An option is a row: with what chance a job has it, which values it may have, and of which jobs. Nothing here knows what
the witness says of a job.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ENGINES = {
    "psync": 3, "pvsync": 2, "pvsync2": 2, "vsync": 2, "sync": 2, "libaio": 3, "io_uring": 3, "posixaio": 2, "mmap": 2,
    "splice": 1, "null": 1,
}  # fmt: skip
"""Engine -> weight."""
KINDS = ("read", "write", "randread", "randwrite", "rw", "randrw")
DEEP = ("libaio", "io_uring", "posixaio")

Job = Mapping[str, str]
Condition = Callable[[Job], bool]


def always(_: Job) -> bool:
    return True


def writes(job: Job) -> bool:
    return job["rw"] not in ("read", "randread")


def only_writes(job: Job) -> bool:
    return job["rw"] in ("write", "randwrite")


def mixed(job: Job) -> bool:
    return job["rw"] in ("rw", "randrw")


def randomly(job: Job) -> bool:
    return job["rw"].startswith("rand")


def timed(job: Job) -> bool:
    return "time_based" in job


def ends(job: Job) -> bool:
    """fio 3.33 with vsync waits for ever for a batch that a pause left incomplete, and gives up after 300 s."""
    return job["ioengine"] != "vsync" or "iodepth" not in job


def own_files(job: Job) -> bool:
    return "filename" not in job


def engine(*names: str) -> Condition:
    return lambda job: job["ioengine"] in names


def without_verify(job: Job) -> bool:
    return randomly(job) and "verify" not in job


@dataclass(frozen=True)
class Row:
    option: str
    chance: float
    values: Sequence[str]
    of: Condition = always


ROWS = (
    Row("bs", 0.7, ("4k", "4k", "8k", "16k", "64k", "256k")),
    Row("bs", 0.1, ("8k,4k", "4k,16k"), mixed),
    Row("bssplit", 0.12, ("4k/60:8k/30:64k/10", "4k/50:16k/50", "8k/10:4k/90"), lambda job: "bs" not in job),
    Row("bsrange", 0.5, ("4k-16k", "4k-64k"), lambda job: not {"bs", "bssplit"} & {*job}),
    Row("size", 1, ("1m", "2m", "4m", "1100k")),
    Row("direct", 0.4, ("1",)),
    Row("rwmixread", 0.4, ("30", "70", "90"), mixed),
    Row("iodepth", 0.8, ("2", "4", "16", "32"), engine(*DEEP)),
    Row("iodepth_batch_submit", 0.2, ("2", "4"), engine(*DEEP)),
    Row("iodepth_batch_complete_max", 0.15, ("4", "8"), engine(*DEEP)),
    Row("iodepth", 0.3, ("4", "8"), engine("vsync")),
    Row("numjobs", 0.25, ("2", "3", "4")),
    Row("thread", 0.3, ("1",)),
    Row("group_reporting", 0.3, ("1",), lambda job: "numjobs" in job),
    Row("nrfiles", 0.15, ("2", "4"), own_files),
    Row("file_service_type", 0.3, ("random", "sequential", "roundrobin"), lambda job: "nrfiles" in job),
    Row("create_on_open", 0.15, ("1",), lambda job: own_files(job) and only_writes(job)),
    Row("unlink", 0.1, ("1",), own_files),
    Row("offset", 0.12, ("64k", "1m"), lambda job: not own_files(job)),
    Row("time_based", 0.2, ("1",)),
    Row("runtime", 1, ("1", "1500ms"), timed),
    Row("runtime", 0.05, ("1",)),
    Row("ramp_time", 0.3, ("300ms", "1"), timed),
    Row("rate", 0.25, ("4m", "20m"), lambda job: timed(job) and ends(job)),
    Row("rate_iops", 0.2, ("200", "2000"), lambda job: timed(job) and ends(job)),
    Row("thinktime", 0.08, ("50us", "200us"), ends),
    Row("loops", 0.1, ("2", "3"), lambda job: not timed(job)),
    Row("fsync", 0.12, ("1", "8", "32"), writes),
    Row("fdatasync", 0.1, ("4", "16"), writes),
    Row("end_fsync", 0.25, ("1",), writes),
    Row("fsync_on_close", 0.08, ("1",), writes),
    Row("sync", 0.08, ("1", "dsync"), writes),
    Row("verify", 0.2, ("crc32c", "md5"), writes),
    Row("verify_backlog", 0.15, ("16",), lambda job: "verify" in job),
    Row("overwrite", 0.1, ("1",), only_writes),
    Row("fallocate", 0.15, ("none", "posix"), only_writes),
    Row("invalidate", 0.1, ("0",)),
    Row("pre_read", 0.06, ("1",), lambda job: not writes(job)),
    Row("norandommap", 0.15, ("1",), without_verify),
    Row("random_distribution", 0.1, ("zipf:1.2", "pareto:0.9", "normal:30"), without_verify),
    Row("percentage_random", 0.06, ("50",), randomly),
    Row("unified_rw_reporting", 0.1, ("1", "both")),
    Row("gtod_reduce", 0.05, ("1",)),
    Row("lat_percentiles", 0.1, ("1",)),
    Row("percentile_list", 0.1, ("50:90:99.9",)),
    Row("clocksource", 0.1, ("clock_gettime", "gettimeofday")),
    Row("registerfiles", 0.2, ("1",), engine("io_uring")),
    Row("fixedbufs", 0.2, ("1",), engine("io_uring")),
    Row("force_async", 0.1, ("4",), engine("io_uring")),
    Row("openfiles", 0.2, ("1",), lambda job: "nrfiles" in job),
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What fio 3.33 prints wrongly: a verdict with one of these reasons is right."""

    proof: str
    of: Condition
    reasons: tuple[str, ...]
    beside: Condition | None = None
    """Of another job at the same time."""

    def is_in(self, jobs: Sequence[Job]) -> bool:
        beside = self.beside
        return any(
            self.of(job) and (beside is None or any(beside(other) for other in jobs if other is not job))
            for job in jobs
        )


FAULTS = (
    Fault(
        "of a batch of iovecs io_bytes has one only: strace shows 4 writev(2) of 262144 bytes, fio prints 262144; and "
        "latencies leave out the call: strace -T shows a readv(2) of 3.9 ms, fio prints a longest clat of 120 µs",
        lambda job: job["ioengine"] == "vsync" and "iodepth" in job,
        ("MORE-SEEN", "FEWER-SEEN", "AT-ODDS-WITH-ITSELF", "OTHER-TIME", "OTHER-LATENCY"),
    ),
    Fault(
        "with verify_backlog, run= of the reads is a fraction of the time between the first and the last (strace)",
        lambda job: "verify_backlog" in job,
        ("OTHER-TIME", "IMPOSSIBLE-LATENCY"),
    ),
    Fault(
        "with fixedbufs synchronisations are submitted as writes: 11571 are printed, 14 requests have the opcode FSYNC",
        lambda job: "fixedbufs" in job and bool({"fsync", "fdatasync", "end_fsync", "fsync_on_close"} & {*job}),
        ("FEWER-SEEN", "MORE-SEEN", "NOT-SYNCED"),
    ),
    Fault(
        "a synchronisation queued again counts again: 112 are printed, io_uring_submit_req has opcode FSYNC 28 times",
        lambda job: job["ioengine"] == "io_uring" and "iodepth_batch_submit" in job and "fsync" in job and mixed(job),
        ("FEWER-SEEN",),
    ),
    Fault(
        "a synchronisation that fails is no error: beside direct writes to the same file fsync(2) returns EIO "
        "(mm/filemap.c, dio_warn_stale_pagecache), and fio with end_fsync ends with 0",
        lambda job: "direct" not in job and "filename" in job and bool({"end_fsync", "fsync_on_close"} & {*job}),
        ("FEWER-SEEN", "NOT-SYNCED"),
        lambda job: "direct" in job and "filename" in job and writes(job),
    ),
)

OUTPUTS: Sequence[Sequence[str]] = (
    ["--output-format=json"],
    ["--output-format=json+"],
    [],
    ["--output-format=terse"],
    ["--minimal"],
)
OUTPUT_WEIGHTS = (6, 2, 4, 1, 1)


@dataclass(frozen=True)
class Command:
    engines: Sequence[str]
    argv: Sequence[str]
    files: Mapping[str, str]
    """A job file, if it has one."""
    faults: Sequence[str]
    """Reasons of verdicts that fio's own faults deserve."""


def draw(rng: random.Random, file: str, is_device: bool) -> Command:
    """One to three jobs on `file`, or on files that fio makes; a device has no others."""
    jobs = [section(rng, file, is_device) for _ in range(rng.choices((1, 2, 3), (8, 2, 1))[0])]
    general = [*rng.choices(OUTPUTS, OUTPUT_WEIGHTS)[0]]
    if any(timed(job) for job in jobs) and rng.random() < 0.15:
        general.append("--status-interval=1")
    if rng.random() < 0.15:
        general.append("--output=out.txt")
    apart = rng.random() < 0.7
    sections = {
        name: [*(["stonewall"] if apart and name != "a" else []), *map("=".join, job.items())]
        for name, job in zip("abc", jobs, strict=False)
    }
    in_file = rng.random() < 0.15
    if in_file:
        words = ["jobs.fio"]
    else:
        words = [
            word for name, lines in sections.items() for word in (f"--name={name}", *(f"--{line}" for line in lines))
        ]
    text = "".join("\n".join([f"[{name}]", *lines, ""]) for name, lines in sections.items())
    return Command(
        list(dict.fromkeys(job["ioengine"] for job in jobs)),
        ["fio", *general, *words],
        {"jobs.fio": text} if in_file else {},
        [reason for fault in FAULTS if fault.is_in(jobs) for reason in fault.reasons],
    )


def section(rng: random.Random, file: str, is_device: bool) -> dict[str, str]:
    """The options of one job."""
    job = {"rw": rng.choice(KINDS), "ioengine": rng.choices([*ENGINES], [*ENGINES.values()])[0]}
    if is_device or rng.random() < 0.4:
        job["filename"] = file
    for row in ROWS:
        if rng.random() < row.chance and row.of(job) and row.option not in job:
            job[row.option] = rng.choice(row.values)
    return job
