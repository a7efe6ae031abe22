"""Every number that decides a verdict, in one table, each with the measurement or the reason behind it.

Measured with a tracing program on a KVM guest with 4 processors, Linux 6.18, fio 3.33 and IOzone 3.471; operations,
bytes and synchronisations of a file are compared exactly and so have no row here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """One of them."""

    value: float
    unit: str
    why: str


TABLE: dict[str, Tolerance] = {
    "others_bytes": Tolerance(
        256 * 1024,
        "bytes",
        "what programs read when they start, where files cannot be told apart: 0.07 MiB were measured for each that is "
        "executed (ELF headers, libraries, locale); this allows for a tool behind two wrappers",
    ),
    "others_written_bytes": Tolerance(64 * 1024, "bytes", "printed results: 10 kB were measured for fio's JSON"),
    "others_operations": Tolerance(256, "calls", "the calls of the same; about 100 were measured"),
    "resolution": Tolerance(
        0.05,
        "share of the claim",
        "where `others_bytes` is more than this, the claim is too small to be judged by totals of the process",
    ),
    "device_bytes": Tolerance(
        0.1 * 2**20, "bytes", "metadata and the loader: at most 0.1 MiB beside 64 MiB of direct I/O"
    ),
    "loader_device_bytes": Tolerance(
        8 * 2**20,
        "bytes",
        "programs and libraries that are read cold from the same device, where the page cache was not watched; chosen",
    ),
    "device_share": Tolerance(0.001, "share of the claim", "64.01 MiB at the device for 64 MiB of direct writes"),
    "engine_share": Tolerance(
        0.01, "share of the bytes", "what a tool may move by another way than its engine's: 2 of 16384 calls were seen"
    ),
    "reopened_s": Tolerance(
        0.001,
        "seconds for each time that a file is opened again",
        "a clock that stops in between, as fio's does between its loops: beyond the others above it is noted",
    ),
    "cached_share": Tolerance(
        0.5, "share of the claim", "fewer of the bytes at the device: the rate is mostly that of memory; chosen"
    ),
    "amplified": Tolerance(
        0.1,
        "share of the claim",
        "more at the device beyond this: a journal costs 5 % in overwrites with a sync each, and 100 % in new files",
    ),
    "interval_share": Tolerance(
        0.002, "share of the interval", "first to last call against IOzone's clock: at most 0.11 % at 15 MB"
    ),
    "interval_s": Tolerance(6e-6, "seconds", "the same in absolute terms: 0.4 to 6 µs in cells of 64 kB to 1 MB"),
    "page_work_s": Tolerance(
        160e-9,
        "seconds a page of 4096 bytes of a record",
        "beside `interval_s`, what explains a pass that is claimed longer than its calls: the first record is filled, "
        "the last one checked between clock and call; 17 to 364 µs with records of 16 MiB, 2 to 9 with 1 MiB",
    ),
    "late_clock_s": Tolerance(
        0.001,
        "seconds",
        "a tool that is preempted between its last call and its clock claims a longer time: 60 µs were seen on a busy "
        "machine; beyond the two above it is noted, and flatters nobody",
    ),
    "held_up_s": Tolerance(
        0.02,
        "seconds",
        "the same where it is less than a quarter of the interval: 6.6 of 90 ms were seen once among 3780 passes on 4 "
        "busy processors",
    ),
    "held_up_share": Tolerance(0.25, "share of the interval", "the quarter: no rate that is halved is explained so"),
    "short_interval_s": Tolerance(
        0.008,
        "seconds",
        "chosen, as two or three slices of a scheduler: being held up once may double such an interval; a pass of "
        "2.8 ms was claimed so by an honest tool on 2 processors",
    ),
    "loose_clock_s": Tolerance(
        0.002, "seconds", "clocks that are set around more than the calls (fio's, dd's): start and end are rounded"
    ),
    "in_flight_share": Tolerance(
        0.05,
        "share of the interval",
        "the same where requests are in flight when such a clock stops: as long as the longest of them took, at most "
        "this; 4 of 516 ms were seen of fio with SQPOLL on busy processors",
    ),
    "several_clocks_s": Tolerance(
        0.25,
        "seconds",
        "jobs that begin late on busy processors: each has its own clock, and the longest is claimed for all; 110 ms "
        "were seen of fio with 4 jobs on 4 processors with five times as much to do. At most the claimed interval, "
        "since jobs that did not overlap did not run together; told with a warning",
    ),
    "life_share": Tolerance(
        0.2,
        "share of the command's life",
        "that a claimed interval may leave where no call was timed: its rate is then at most 25 % too high; chosen",
    ),
    "latency_share": Tolerance(
        0.1, "share of the mean", "the tool's mean over the kernel's, one call at a time and libaio: 0.2 to 9 %"
    ),
    "latency_bucket_share": Tolerance(
        0.05,
        "share of the latency",
        "half a bucket of the kernel-side histogram (3.2 %) and of a tool's own (fio's: 1.6 %), where single calls of "
        "a percentile are not known",
    ),
    "latency_ns": Tolerance(3000, "nanoseconds", "the tool's own cost for each call: 1.9 to 2.6 µs"),
    "latency_below_share": Tolerance(
        0.02, "share of the mean", "a mean below the kernel's cannot be; less than this is the probe's own cost"
    ),
    "latency_below_ns": Tolerance(1000, "nanoseconds", "the probes at the entry and exit of a call: 0.5 to 0.7 µs"),
    "pattern_calls": Tolerance(
        16, "calls", "with fewer that have one before them no pattern is judged: four of ten are one by chance; chosen"
    ),
    "pattern_share": Tolerance(
        0.1,
        "share of the calls",
        "that may be out of a pattern, and in order by chance beyond what is expected of random ones: files that end, "
        "and tools that begin again; chosen",
    ),
    "pattern_unsure": Tolerance(
        0.01,
        "share of the calls",
        "whose offset or order is not known for sure: with more nothing is said of the pattern; chosen",
    ),
    "working_set_share": Tolerance(
        0.1,
        "share of the working set",
        "less than random draws touch, less six standard deviations, or more than is claimed: ends of files that "
        "are no whole records; chosen",
    ),
    "coverage": Tolerance(
        0.98,
        "share of the calls",
        "of ends that were seen: the kernel skipped at most 1.25 % of the completion-side programs without saying so; "
        "with less the latency is not judged",
    ),
    "lost": Tolerance(0, "events", "counts with losses are lower bounds, which neither confirm nor contradict"),
    "probe_effect": Tolerance(0.03, "share of the result", "the tracing level 'block' cost less than this; chosen"),
}


def of(name: str) -> float:
    """The value of a row."""
    return TABLE[name].value
