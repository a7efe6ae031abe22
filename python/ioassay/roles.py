"""The three roles and what they exchange: a Driver makes the load, a Target is loaded, a Monitor watches.

`ioassay.runner.run` gets the roles as objects. Drivers only describe commands and parse output; they start nothing.
Each role ships a null implementation, which tests the lab and measures its own overhead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ioassay import metrics
from ioassay.metrics import Metric
from ioassay.records.record import Buckets, Claim, Scalar, Series, Warning_

if TYPE_CHECKING:
    from resource import struct_rusage

READ = "read"
WRITE = "write"
NOTHING = "nothing"
LEAST_SHORT_S = 1.0
"""What a load is never shortened below: before that a tool has hardly begun."""


@dataclass(frozen=True)
class Trial:
    """One frozen point of a study and one repetition. `id` is a hash of the content, without `order`."""

    id: str
    study: str
    driver: str
    point: Mapping[str, Scalar]
    """Factor name -> level, as the study wrote them."""
    params: Mapping[str, Any]
    """The driver's parameters at this point (fixed ones, case and factors merged)."""
    target: Mapping[str, Any]
    """The target's settings at this point."""
    run: Mapping[str, Any]
    """Conditions of the run at this point (timeout, scheduler, …)."""
    repetition: int
    seed: int
    """Fresh for each repetition and point, derived from the study's seed."""
    order: int
    """Position in the plan of the whole run, from 0."""
    twin: bool = False
    """Runs without the witness, beside a trial of the same point and repetition that has it (`watch.twins`)."""
    calls: bool = False
    """Runs to have its system calls counted by name, right after the point's first repetition (`watch.calls`); its
    speeds are not used."""
    search: str = ""
    """What a search runs it for (`packs/tuning` has the words); '' in every other run."""


@dataclass(frozen=True)
class Touch:
    """A path that a driver's own parameters name (a job file's `filename`), beside the study's target."""

    path: Path
    access: str
    """READ or WRITE."""
    size_bytes: int | None = 0
    """What a file that is written may grow to; None where it cannot be known."""


@dataclass(frozen=True)
class Footprint:
    """Room that a load takes in a file system."""

    path: Path
    size_bytes: int | None
    lasting: bool = True
    """False: given back when the trial ends, so that only one at a time takes it."""


@dataclass(frozen=True)
class Confinement:
    """What a tool changes beside its target, its raw folder and the files that `touches` names for writing."""

    layouts: Sequence[Path] = ()
    """Of those files the ones that it makes, replaces or removes: their folders have to be open to it."""
    host: Sequence[Path] = ()
    """Files and folders of the host, such as /proc/sys/vm/drop_caches."""
    waiver: str = ""
    """Why its processes are not confined at all; '' where they are."""


@dataclass(frozen=True)
class External:
    """Something that a load does and no check of paths can see: a program that it runs, storage elsewhere."""

    option: str
    """The option that does it, with its value."""
    effect: str
    """What it does, as the rest of a sentence: `runs a command through a shell`."""


@dataclass(frozen=True)
class Tool:
    """The program behind a driver. `probes` are extra commands whose output the driver wants once a run."""

    executable: str
    version_argv: Sequence[str]
    minimum: tuple[int, ...]
    package: str
    """Debian package that has it; '' where none has."""
    probes: Mapping[str, Sequence[str]] = field(default_factory=dict)


MEMORY, PROCESSES, FILES = "memory", "processes", "open files"
TERMINALS, DISK, INODES = "pseudoterminals", "disk space", "inodes"
"""What a trial takes of its host: `Need.resource`. Threads count as processes, as the kernel numbers them alike."""
OF_TOTAL, OF_FREE, OF_MAPPINGS, OF_STACK = "total", "free", "mappings", "stack"


@dataclass(frozen=True)
class Need:
    """What all processes of a trial together take of one resource at their peak."""

    resource: str
    amount: float
    """Bytes or a number; with `of` a factor. Infinite: it grows until something stops it."""
    cause: str
    """What of the study makes it so, for messages: `vm-bytes = 200%`."""
    key: str
    """The study's key that is to be changed."""
    remedy: str = ""
    """What makes it less: `lower vm-bytes`; empty where nothing does."""
    of: str = ""
    """What `amount` is a factor of: all that the host has, what is free of it, or what a process may have of mappings
    (vm.max_map_count) or of stack (RLIMIT_STACK)."""


@dataclass(frozen=True)
class Demand:
    """What a trial takes of its host, as far as its parameters say. `preflight` sets it against what the host has."""

    needs: Sequence[Need] = ()
    consent: str = ""
    """What a study says to have it all the same."""
    accepted: bool = False
    """Whether it says so."""


@dataclass(frozen=True)
class Estimate:
    """What a trial is expected to cost."""

    seconds: float
    written_bytes: int | None
    """None when it cannot be known beforehand (time-based writes)."""
    memory_bytes: int | None = None
    """What computing one trial takes at its peak; None: too little to matter. Bounds how many run at once."""
    occupied_bytes: int = 0
    """What the tool's own files take at once in a target that is a folder."""
    recorded_bytes: int = 0
    """What it leaves in the trial's raw folder, where that is much."""
    demand: Demand = Demand()


@dataclass(frozen=True)
class Counted:
    """What storage that counts for itself says: all of it as it was said, and as metrics."""

    document: Mapping[str, Any]
    metrics: Mapping[str, float]
    past_cache: bool = False
    """Its file is answered without the page cache, however a tool opens it."""
    warnings: Sequence[Warning_] = ()
    """Why its answers may not have been what they should have been."""


@dataclass(frozen=True)
class StepCounter:
    """How storage that counts for itself is asked between the steps of a trial."""

    socket: Path
    """A Unix socket that answers a line of JSON with another."""
    request: str
    metrics: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, float]]
    """Metrics of what was counted between two answers."""


@dataclass(frozen=True)
class Load:
    """What a target yields to be loaded. `path` is None for a load without storage."""

    kind: str
    path: Path | None
    size_bytes: int
    read_only: bool
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Other ways to the same storage: `nbd` (a URI), `nvme_tcp` (address and port) with its `nqn`."""
    new_file: Callable[[str, int], Path] | None = None
    """In a folder: makes a file of that name and so many bytes, filled, before anything is counted. ToolError."""
    counted: Callable[[], Counted] | None = None
    """What the storage itself counted since it was yielded; asked once, when the tool has ended."""
    step_counter: StepCounter | None = None


@dataclass(frozen=True)
class Step:
    """One of several processes of a trial. What its storage counts is kept as `<name>.<metric>`; '' keeps nothing."""

    name: str
    argv: Sequence[str]


@dataclass(frozen=True)
class Command:
    """What a driver wants to be run. `files` (name -> text) are written to the trial's raw folder first."""

    argv: Sequence[str]
    timeout_s: float
    files: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[Step] = ()
    """In place of `argv`: processes that run one after the other. `timeout_s` is that of all of them."""
    cold: bool = False
    """Whether the page cache forgets the files of the target's folder before each step."""

    @classmethod
    def of_steps(
        cls, steps: Sequence[Step], timeout_s: float, cwd: Path | None = None, *, cold: bool = False
    ) -> Command:
        """A command of several processes. Its `argv` is what a shell would take to run them."""
        words = [word for step in steps for word in ("&&", *step.argv)][1:]
        return cls(words, timeout_s, cwd=cwd, steps=steps, cold=cold)


@dataclass(frozen=True)
class Rehearsal:
    """A command that shows how a tool reads its parameters, and does nothing else."""

    command: Command
    reading: str
    """The driver's own reading, as a text: what was confirmed once is not asked again."""
    confirm: Callable[[str, str], Sequence[Warning_]]
    """Holds what the command wrote to stdout and stderr against that reading.

    SafetyRefusal where they differ, StudyError where the tool does not take the parameters.
    """


@dataclass(frozen=True)
class EndedStep:
    """A step that ran. `stdout_end` is where its output ends, in bytes of the trial's stdout."""

    name: str
    exit_status: int
    """Negative for a signal."""
    stdout_end: int


@dataclass(frozen=True)
class Portable:
    """What a trial needs on a host that has none of this one's files."""

    params: Mapping[str, Any]
    """Parameters with the same effect; those that `inputs` names are set to where the files are there."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Parameter -> the file of this host that it names."""


@dataclass(frozen=True)
class Outcome:
    """How a process ended. Output was streamed to `stdout` and `stderr` files; times are wall clock."""

    exit_code: int | None
    """None when it was ended by a signal."""
    signal: int | None
    timed_out: bool
    started_unix_s: float
    duration_s: float
    stdout: Path
    stderr: Path
    leftovers: Sequence[int] = ()
    """Ids of processes of its group that were still alive at its end, and were ended."""
    ended_for: str = ""
    """Why the lab ended it before its time; empty when it did not."""
    usage: struct_rusage | None = None
    """What it and the children that it reaped used (getrusage(2))."""
    processes: int | None = None
    """Processes that there were, itself and those of any depth that it started; None where nobody counted them."""
    threads: int | None = None
    """Threads that they started, beside the one that each begins with."""
    most_alive: int | None = None
    """Most processes and threads that were alive at once."""
    unconfined: str = ""
    """Why the kernel did not confine its processes, though they were to be confined; '' where it did."""
    steps: Sequence[EndedStep] = ()
    """Of a command of several."""

    @property
    def status(self) -> int:
        """Its exit status as a shell has it: 128 and its number for a signal."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


@dataclass(frozen=True)
class Parsed:
    """What a driver read from a tool's output. `status` is record.OK, FAILED or SKIPPED."""

    status: str
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    buckets: Sequence[Buckets] = ()
    series: Sequence[Series] = ()
    parts: Sequence[Mapping[str, Any]] = ()
    claims: Sequence[Claim] = ()
    """What the witness's counts are set against."""
    warnings: Sequence[Warning_] = ()
    lasting: bool = False
    """Skipped for a reason that holds for every repetition of its point: the others are not begun."""


@dataclass(frozen=True)
class Rates:
    """What a load does per second, in its latest interval of about a second: never a mean since its start."""

    iops: float
    bytes_per_s: float


@dataclass(frozen=True)
class CurrentRates:
    """A trial's current rates by each source that has any, for whoever looks on; nothing of it is recorded."""

    elapsed_s: float
    tool: Rates | None = None
    """As the tool itself says."""
    device: str = ""
    """The block device under the target; '' where there is none."""
    storage: Rates | None = None
    """Requests that the device completed, those of other programs included."""
    latency_ns: float | None = None
    """Their mean latency; None where too few completed for the kernel's counter of milliseconds."""


def short_s(whole_s: float, share: float, step_s: float = 0.0) -> float | None:
    """`share` of a running time, at least LEAST_SHORT_S and a multiple of `step_s`; None if more than its half."""
    wanted_s = max(share * whole_s, LEAST_SHORT_S)
    wanted_s = math.ceil(wanted_s / step_s) * step_s if step_s else wanted_s
    return wanted_s if wanted_s <= whole_s / 2 else None


class DriverFacts(Protocol):
    """What a driver states of its trials to those who read the records, since these know no driver by name.

    The values here are those of a driver that states nothing, and of one that an old run names and this version lacks.
    """

    deterministic: bool = False
    """A trial gives the same again: no machine was measured, and there is nothing to repeat."""
    length_key: str = ""
    """The parameter that makes a trial longer; '' where a longer trial says no more."""
    responses: Sequence[str] = ()
    """Metrics worth answering where a study lists none, in addition to bandwidth, IOPS and latency."""
    counts_from_arrival: bool = False
    """Latencies begin when a request is due, so that a wait for its issue is part of them."""
    metrics: Sequence[Metric] = ()
    """Those that no other driver has. The registry knows them from when the class is made."""

    def declared_metrics(self, params: Mapping[str, Any]) -> Sequence[Metric]:
        """Metrics that a study's own parameters declare, in the order of their weight.

        They are answered in place of `responses`. Asked of the parameters of an old run too.
        """
        return ()

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        """What makes the load bypass the page cache; '' where it does, or where the cache belongs to what is measured.

        Asked of the parameters of an old run too, which may be wrong for this version.
        """
        return ""


class UnknownDriver(DriverFacts):
    """The facts of a driver that this version does not have."""


class Driver(DriverFacts, Protocol):
    """Makes the load. Pure: describes a command and parses output.

    A driver derives from this class: what only some have to say, the others inherit.
    """

    name: str
    measures: bool
    """True: trials run one at a time on this machine.

    False: a trial is computed by `parse(trial, None, raw)` alone, in any process (`command` is not asked, no target is
    loaded, nothing watches), and several run at once.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        metrics.add(cls.metrics)

    def tool(self) -> Tool | None:
        """The program needed, or None."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Take the tool's version line and the output of its probes (once a run, before any trial)."""
        return

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """Check one point without running anything; StudyError with `key` when it is impossible."""

    def access(self, params: Mapping[str, Any]) -> str:
        """READ, WRITE or NOTHING: what the load does to the target."""

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """Paths that the parameters name themselves; the safety check sees each before anything runs."""
        return ()

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        """What the tool's processes have to be able to change beside that; asked right before a trial."""
        return Confinement()

    def externals(self, params: Mapping[str, Any]) -> Sequence[External]:
        """What the load does that no check of paths can see; each needs the user's consent (`Consent.exec`)."""
        return ()

    def rehearsal(self, params: Mapping[str, Any], folder: Path) -> Rehearsal | None:
        """How the tool can be asked what it reads in the parameters; None where there is no need.

        The command's files are written to `folder` before.
        """
        return None

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Expected cost of one trial."""

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """The same load for `share` of its running time, but at least LEAST_SHORT_S; None where it has no running time
        that could be shortened, or only by less than half."""
        return None

    def stated_level(self, params: Mapping[str, Any], name: str) -> str | None:
        """What a file that the parameters name sets an option to; None where it does not. StudyError for several."""
        return None

    def portable(self, params: Mapping[str, Any]) -> Portable:
        """What a trial with these parameters needs on another host; asked of pure drivers, right before a trial."""
        return Portable(params)

    def in_folder(self, params: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """The same load where relative paths start from another folder; asked on a host that measures for another."""
        return params

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        """The command of one trial; None when the driver needs no process (null)."""

    def rates(self, output: str) -> Rates | None:
        """The current rates in the end of what a running tool has written to stdout; None where it says none."""
        return None

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Read the tool's output; never raises for bad output, but says `failed` with the reason."""


@dataclass(frozen=True)
class Consent:
    """What the user allowed."""

    names: Sequence[str] = ()
    """What may be destroyed: by-id names or serials given with --destroy-data."""
    exec: bool = False
    """Whether a load may run programs and write elsewhere, which no check can see (--allow-exec)."""


class Target(Protocol):
    """Is loaded."""

    kind: str

    def inspect(self, access: str) -> Sequence[Warning_]:
        """Everything that can be said before touching it; SafetyRefusal or StudyError ends the run here."""

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        """Create and fill (idempotent). `progress(text, share)` with share from 0 to 1."""

    def footprints(self) -> Sequence[Footprint]:
        """Room that it takes in file systems; asked after `inspect`."""

    def load(self, trial: Trial) -> AbstractContextManager[Load]:
        """What to load during one trial."""

    def close(self) -> None:
        """Give back what was taken."""

    def abandon(self) -> None:
        """Remove what `close` would have removed: called in another process when the runner was killed."""


@runtime_checkable
class Renewable(Protocol):
    """A target that a study can ask to be in the same state before its first trial, whatever was done to it before."""

    def renew(self) -> None:
        """Have `prepare` purge and fill it anew, as its settings say. Not asked where a study goes on."""


class Monitor(Protocol):
    """Watches. Reads raw counters and gauges; computes nothing."""

    name: str

    def read(self) -> Mapping[str, float]:
        """One reading: field name -> raw value."""


@runtime_checkable
class ProcessMonitor(Monitor, Protocol):
    """Watches the processes of the trial alone."""

    unavailable: Mapping[str, str]
    """What this machine cannot count, with the reason; known after `attach`."""

    def attach(self, pid: int) -> None:
        """Begin with a process that is held before its first instruction; what it starts belongs to it."""

    def detach(self) -> None:
        """Give back what is open, after the last reading."""
