"""What one trial left behind.

A record stores what was seen; whatever can be computed from records is not stored in one.
Deliberately not here: reading and writing files (`ioassay.store.run_folder`), and the records of a run as data frames
(`ioassay.store.dataset`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 3

Scalar = str | int | float | bool

OK = "ok"
FAILED = "failed"
SKIPPED = "skipped"

WILL_BE_SKIPPED = "will-be-skipped"
"""Code of the warning, before a run, that trials will be skipped."""


@dataclass(frozen=True)
class Warning_:
    """A suspicion, stored with the record. `code` is stable; `remedy` is the next step, ready to be typed."""

    code: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Buckets:
    """One latency distribution of one trial: `counts[i]` requests took about `values_ns[i]`."""

    direction: str
    kind: str
    values_ns: Sequence[int]
    counts: Sequence[int]
    job: int = -1
    """Number of the job inside the trial, -1 for all jobs merged."""


@dataclass(frozen=True)
class LatencyWindow:
    """The requests of one direction that completed in one window of a trial: middles of bins, requests in each."""

    end_s: float
    values_ns: Sequence[int]
    counts: Sequence[int]


@dataclass(frozen=True)
class Series:
    """One time series of one trial, in the unit of its metric (`read.bw`: bytes/s; `read.lat.mean`: ns)."""

    metric: str
    time_s: Sequence[float]
    value: Sequence[float]
    job: int = -1


@dataclass(frozen=True)
class Samples:
    """Raw readings of one monitor during one trial, time relative to the start of the load.

    `counter` fields only ever grow (rates are derived); gauges are levels. Rows are long: one value each.
    """

    monitor: str
    time_s: Sequence[float]
    name: Sequence[str]
    value: Sequence[float]


SEQUENTIAL, RANDOM, STRIDED, BACKWARD = "sequential", "random", "strided", "backward"
PATTERNS = (SEQUENTIAL, RANDOM, STRIDED, BACKWARD)
SEVERAL_ENGINES = "several engines"
"""Of jobs that are claimed together, where some make no calls (mmap, null)."""


@dataclass(frozen=True)
class Misfit:
    """A printed number that other numbers of the same output exclude: they imply one from `low` to `high`."""

    name: str
    value: float
    low: float
    high: float | None
    """None where they imply no upper end."""


@dataclass(frozen=True)
class Claim:
    """What a tool says it did in one interval that it timed; None for what it did not say."""

    source: str
    """Whose claim: a name of `formats.PARSERS`, or 'user'."""
    kind: str
    """'read', 'write', 'trim', 'mixed' (a tool that does not tell them apart), or 'keys' for operations of a
    database, which are not I/O."""
    test: str = ""
    """The tool's own name of it ('reread', 'fillseq'), where its output has several."""
    operations: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    """Length of the interval behind the rate."""
    rate_bytes_per_s: float | None = None
    """As printed, in bytes a second."""
    rate_unit_bytes: float = 1.0
    """Step of the printed rate: 1024 for whole KiB/s."""
    clock_step_s: float = 0.0
    """Step of the tool's clock, where it is known."""
    latency_ns: Mapping[str, float] = field(default_factory=dict)
    """Of one operation: 'mean', 'stddev', 'min', 'max', 'p50', 'p99', …; 'clat.mean', 'slat.max' where submission and
    completion are told apart; 'sync.mean', 'sync.p99' of its synchronisations."""
    latency_step_ns: Mapping[str, float] = field(default_factory=dict)
    """Steps of those that are printed with few digits."""
    latency_operations: int | None = None
    """Operations behind these where they are fewer than all: ioping leaves its first out."""
    operations_per_s: float | None = None
    """As printed, operations a second."""
    operations_per_s_step: float = 0.0
    """Step of that where it is printed with few digits."""
    syncs: int | None = None
    writes_per_sync: int | None = None
    """The most writes of each process between two synchronisations; None: that is not said."""
    errors: int | None = None
    engine: str = ""
    """How it says it did it: 'psync', 'io_uring', 'null'."""
    direct: bool | None = None
    paths: Sequence[str] = ()
    """Files that it names; none: not said."""
    paths_stated: bool = False
    """They are words that the tool was given, or that it printed; else they are derived from other words."""
    file_bytes: int | None = None
    record_bytes: int | None = None
    pattern: str = ""
    """Where its operations go, of `PATTERNS`; '' where it is not said, or depends on more than that."""
    working_set_bytes: int | None = None
    """What they reach in the long run, all its files together; of random ones, each part as likely as any other."""
    includes: Sequence[str] = ()
    """What its interval includes beside the calls: 'fsync', 'close'; 'osync' where each write is synchronous."""
    workers: int | None = None
    """Processes, threads or clients that did it together, where it says how many."""
    servers: Sequence[str] = ()
    """Servers that did its I/O, each a process that the command did not start; none: its own processes did it."""
    primed: bool = False
    """It reads one record before its clock starts."""
    silent_passes: int = 0
    """Passes over the file after it that are not reported."""
    unreported: Sequence[str] = ()
    """What it did and leaves out of its numbers: 'ramp', 'layout', 'pre-read', 'end-fsync' (not counted as a sync),
    'pauses' (work between its loops, for which its clock stops), 'end-of-file' (the read that finds it), 'stonewalled'
    (processes that the first to end stopped), 'own-files' (a database's files beside its tables, and the headers within
    its log), 'other-tests' (whose volume it does not state)."""
    doubts: Sequence[str] = ()
    """What its own output gives against its numbers: 'clock-clamp', 'poor-timer', 'whole-microseconds', 'sparse' (zeros
    counted, not written), 'sides-unknown' (dd without its arguments), 'no-operations' (bytes of nothing),
    'several-clocks' (processes that each began when they could, of whose times the longest is claimed),
    'printer-unknown' (which process printed it is not certain), 'among-others' (beside it, or by it, other programs
    ran, which may have used the same files), 'log-not-synced' (a part of
    what a database wrote)."""
    misfits: Sequence[Misfit] = ()
    """Printed numbers that contradict what else is printed, which every tool prints more than once in some form."""
    requests_ns: Sequence[float] = ()
    """Latencies of single requests, where it prints each one."""
    began_ns: int = 0
    ended_ns: int = 0
    """Life of the process that printed it, on the clock of observations; 0 where that process is not certain."""
    output: str = ""
    """What that process had as its standard output, as in `observation.Program`; '' where that is not certain."""
    counted_paths: Sequence[str] = ()
    """Files whose reads its amounts count: those of writes that leave out zeros ('sparse')."""


@dataclass(frozen=True)
class Program:
    """A program that is not the trial's; `share` of the processors' time."""

    name: str
    share: float


@dataclass(frozen=True)
class Environment:
    """The machine around one trial, from its first instruction to its end."""

    seconds: float
    processors: int
    own_share: float
    """The trial's processes."""
    others_share: float
    """Programs other than the trial's and ioassay's."""
    kernel_share: float
    """Kernel threads and interrupts, whoever caused them."""
    steal_share: float
    """Taken by the hypervisor."""
    others_share_before: float | None = None
    """Other programs in the pause before this trial; None where there was none, or it was too short."""
    pressure: Mapping[str, float] = field(default_factory=dict)
    """'cpu', 'memory', 'io' -> share of the trial's time in which at least one task of the machine waited for it."""
    programs: Sequence[Program] = ()
    """The busiest of the others, busiest first."""
    devices: Mapping[str, float] = field(default_factory=dict)
    """Block device -> share of its bytes that others than the trial moved; of those that moved at least 1 MiB."""
    throttled: int = 0
    """Times that a processor was slowed down because it was too hot."""
    clock_ratio: float | None = None
    """The processors' frequency at the end over the highest that they offer."""
    idle_share: float | None = None
    """Nobody's time, waiting for devices included: what the trial could still have had. None where it was not kept."""


@dataclass(frozen=True)
class Record:
    """One trial's result as stored in `record.json`; distributions and series lie in Parquet files beside it."""

    trial: Mapping[str, Any]
    """id, study, driver, point (factor -> level), repetition (from 0), seed, order (from 0), twin; of a search also
    search, what the trial was for."""
    status: str
    reason: str = ""
    started_unix_s: float = 0.0
    duration_s: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    parts: Sequence[Mapping[str, Any]] = ()
    """Per-job results: {"name": …, "metrics": {…}}."""
    claims: Sequence[Claim] = ()
    warnings: Sequence[Warning_] = ()
    command: Sequence[str] = ()
    exit_code: int | None = None
    monitor_cost: Mapping[str, float] = field(default_factory=dict)
    """cpu_s: processor time the monitors used; samples: readings taken; interval_s: asked interval."""
    environment: Environment | None = None
    """What else used the machine; None where nothing was measured."""
    raw: Sequence[str] = ()
    """Names of the files in the trial's raw folder."""
    schema: int = SCHEMA
