"""What fio reports of one run, in base units, whichever of its formats and versions it comes from.

`fio_json`, `fio_terse` and `fio_text` make these; claims (`fio_claims`), the driver's metrics and the import are views
of them. Jobs merge here as distributions do: means weighted by requests, deviations pooled, bins added, so that
percentiles come from merged bins and never from other percentiles.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import product
from operator import attrgetter

from ioassay.errors import InputError
from ioassay.formats.number_parsing import Spread, between, of_spread, quotient
from ioassay.records.record import Misfit, Warning_

DIRECTIONS = ("read", "write", "trim", "mixed")
"""`mixed` is what fio reports with unified_rw_reporting."""
SYNC = "sync"
"""What jobs synchronised, which stands beside their directions."""
KINDS = ("slat", "clat", "lat")
_MANY = 10**9
_DEFAULT_PORT = 8765
TOTAL = "All clients"
"""fio's name for its entry of all clients together."""


@dataclass(frozen=True)
class Latency:
    """One kind of latency of one direction of one job, in ns. Without a count it cannot be merged with others."""

    count: int
    mean_ns: float
    stddev_ns: float
    min_ns: float
    max_ns: float
    bins: Mapping[int, int] = field(default_factory=dict)
    """JSON+ only: latency in ns -> requests."""
    percentiles_ns: Mapping[float, float] = field(default_factory=dict)
    """fio's own, by percentage."""
    step_ns: float = 0.0
    """Of printed numbers with few digits."""
    mean_step_ns: float = 0.0
    """Of the mean, which has more of them."""
    count_stated: bool = False
    """False where `count` is that of the requests of the direction."""
    percentile_unit_ns: float = 0.0
    """To which fio rounds percentiles up; 0 where fio's ways are not known to be behind these numbers."""

    @property
    def statistics_ns(self) -> dict[str, float]:
        """Those that every format prints, by name."""
        return {"mean": self.mean_ns, "stddev": self.stddev_ns, "min": self.min_ns, "max": self.max_ns}


@dataclass(frozen=True)
class Direction:
    """What one job did in one direction."""

    ios: int
    bytes: int
    runtime_s: float
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    """By kind, and `<priority>/<kind>` of the requests of one priority; without those that were not measured."""
    ios_stated: bool = True
    """False where fio prints no number of requests: then it is the printed rate times the time."""
    bytes_stated: bool = True
    """False where the volume is printed with three digits."""
    rate_bytes_per_s: float | None = None
    """As printed."""
    rate_step_bytes_per_s: float = 1.0
    """The last digit of that."""
    operations_per_s: float | None = None
    """As printed."""
    operations_per_s_step: float = 0.0
    """The last digit of that, where there are few."""
    misfits: Sequence[Misfit] = ()
    """Amounts, times and rates that contradict each other."""


CPU = ("usr_cpu", "sys_cpu", "ctx", "majf", "minf")
"""fio's own names of what `CpuUse` has, in its order."""


@dataclass(frozen=True)
class CpuUse:
    """CPU time of a job in percent of one processor, and what the kernel counted of it."""

    usr_percent: float = 0.0
    sys_percent: float = 0.0
    context_switches: float = 0.0
    major_faults: float = 0.0
    minor_faults: float = 0.0


@dataclass(frozen=True)
class Job:
    """One entry of fio's results: one process, or a whole group with group_reporting."""

    name: str
    group: int
    error: int
    """errno, 0 for none."""
    directions: Mapping[str, Direction]
    options: Mapping[str, str] = field(default_factory=dict)
    """As in the job file, [global] ones included; empty where the format has none."""
    runtime_s: float = 0.0
    cpu: CpuUse = CpuUse()
    errors: int = 0
    """Their number with continue_on_error; else fio stops at the first."""
    syncs: int | None = None
    sync_latency: Latency | None = None
    started_unix_s: float = 0.0
    measured: Mapping[str, float] = field(default_factory=dict)
    """Metrics that are those of this job alone."""
    unsteady: str = ""
    """The criterion of its option `steadystate`, where it was not attained."""
    processes: int = 1
    """At most."""
    misfits: Sequence[Misfit] = ()
    """Sums of its group that are not those of the jobs."""
    client: str = ""
    """The server that ran it, `HOST:PORT` or the path of a socket, of `fio --client`; '' where fio ran it itself."""

    def with_options(self, options: Mapping[str, str]) -> Job:
        """With options that the results lack; as many processes as they ask for may have made the numbers."""
        several = options.get("numjobs", "1")
        most = int(several) if re.fullmatch(r"[0-9]{1,9}", several) else _MANY
        return replace(self, options=options, processes=max(self.processes, most))

    @property
    def ios(self) -> int:
        """Requests in all directions."""
        return sum(direction.ios for direction in self.directions.values())

    @property
    def timed_syncs(self) -> int:
        """Those that are stated, or were timed: of calls of fdatasync fio counts the times alone."""
        return max(self.syncs or 0, self.sync_latency.count if self.sync_latency else 0)

    @property
    def _is_whole(self) -> bool:
        """Whether each request is in every statistic: a ramp leaves some out of one and not of another."""
        return bool(self.options) and not {"ramp_time", "io_submit_mode"} & self.options.keys()

    def all_misfits(self, direction: str, *, syncs: bool) -> list[Misfit]:
        """What of the numbers of a direction, and of the synchronisations, contradicts the rest."""
        own = self.directions[direction]
        known = bool(self.options) and "fdatasync" not in self.options  # whose number is printed in JSON alone
        one = self.sync_latency
        sync = [("sync", one)] if syncs and one and one.count and (one.count_stated or known) else []
        # Of some engines fio prints hours, and latencies of the last requests of a ramp, which it does not count.
        counted = {
            name: one for name, one in own.latencies.items() if one.count_stated or "ramp_time" not in self.options
        }
        sane = {name: one for name, one in counted.items() if one.min_ns <= own.runtime_s * 1e9}
        named = [*sane.items(), *sync]
        found = [
            *self.misfits,
            *own.misfits,
            *(misfit for name, latency in named for misfit in _of_latency(name, latency)),
        ]
        longest_ns = max((latency.max_ns for latency in own.latencies.values()), default=0.0)
        if self._is_whole and longest_ns <= own.runtime_s * 1e9:
            found += _of_parts(own.latencies)
        # The clock of the reads that verify stands still meanwhile: 275 of 45 us in 1 ms were seen of fio 3.33.
        waits = self.options.get("ioengine", "psync") in ("psync", "sync", "pvsync", "pvsync2")
        waits = waits and "verify" not in self.options
        for name, one in sane.items() if waits and self._is_whole and own.runtime_s else ():
            most_ns = self.processes * (own.runtime_s + _CLOCKS_S) * 1e9 / one.count
            found += between(f"{name} mean", one.mean_ns, 0.0, most_ns)
        others = {"fdatasync", "sync_file_range", "ramp_time"}  # of which fio prints no number
        if sync and self.syncs and sync[0][1].count_stated and not others & self.options.keys():
            found += between("synchronisations", self.syncs, sync[0][1].count, sync[0][1].count)
        return found


_BUCKETS = 64
"""Of fio's histogram in each power of two (stat.h, FIO_IO_U_PLAT_VAL); percentiles are the middles of buckets."""
_CLOCKS_S = 0.002
"""The clock of the run time has a step of 1 ms, and may be read later than that of the first request."""
_LAST_BUCKET_NS = 17e9
"""What is longer is in the last one."""


def _middle_ns(value_ns: float) -> float:
    """The largest middle of a bucket that is not above (stat.c, plat_idx_to_val)."""
    if value_ns < 2 * _BUCKETS:
        return float(math.floor(value_ns))
    width = 2 ** (int(value_ns).bit_length() - 1) // _BUCKETS
    low = value_ns // width * width
    return low + width / 2 if low + width / 2 <= value_ns else _middle_ns(low - 1)


def _of_latency(name: str, latency: Latency) -> list[Misfit]:
    unit_ns, count = latency.percentile_unit_ns, latency.count
    # In terse lines of several jobs they are mixed up.
    percentiles_ns = latency.percentiles_ns if unit_ns and latency.max_ns < _LAST_BUCKET_NS else {}
    found = of_spread(name, Spread(count, latency.mean_ns, latency.stddev_ns, latency.min_ns, latency.max_ns,
                                   percentiles_ns, latency.step_ns, 1 / _BUCKETS))  # fmt: skip
    for percent, value_ns in percentiles_ns.items():
        middle_ns = math.floor(_middle_ns(value_ns))
        found += between(f"{name} p{percent:g}", value_ns, middle_ns, math.ceil(middle_ns / unit_ns) * unit_ns)
    # A sum of whole nanoseconds, divided: with six decimals it shows of few requests.
    total_ns, error_ns = latency.mean_ns * count, count * 6e-7 + latency.mean_ns * count * 1e-12
    if latency.count_stated and unit_ns and not latency.step_ns and error_ns < 0.1:
        whole_ns = round(total_ns)
        found += between(f"{name} mean", latency.mean_ns, (whole_ns - error_ns) / count, (whole_ns + error_ns) / count)
    return found


def _of_parts(latencies: Mapping[str, Latency]) -> list[Misfit]:
    """Submission and completion make up the whole, of each request and so of the statistics."""
    whole, parts = latencies.get("lat"), [latencies[kind] for kind in ("slat", "clat") if kind in latencies]
    if whole is None or not parts or len({one.count for one in (whole, *parts)}) > 1:
        return []
    step_ns = sum(one.step_ns for one in (whole, *parts)) + 1
    mean_step_ns = sum(one.mean_step_ns for one in (whole, *parts)) + 1
    parts_ns = sum(part.mean_ns for part in parts)
    rest_ns = max(whole.mean_ns - parts_ns + mean_step_ns, 0.0) * whole.count
    most_ns = sum(part.max_ns for part in parts) + rest_ns
    # The deviation of a sum is at most the sum of the deviations; that of the rest is bounded by its mean and its most.
    own_ns = [part.stddev_ns for part in parts]
    loose_ns = math.sqrt(rest_ns / whole.count * min(rest_ns, whole.max_ns + step_ns)) * 1.001 + 3 * mean_step_ns
    return [
        *between("lat deviation", whole.stddev_ns, 2 * max(own_ns) - sum(own_ns) - loose_ns, sum(own_ns) + loose_ns),
        *between("lat mean", whole.mean_ns, parts_ns - mean_step_ns, math.inf),
        *between("lat min", whole.min_ns, sum(part.min_ns for part in parts) - step_ns, math.inf),
        *between("lat max", whole.max_ns, max(part.max_ns for part in parts) - step_ns, most_ns + step_ns),
    ]


@dataclass(frozen=True)
class Disk:
    """The kernel's raw counts of one disk, as fio read them."""

    name: str
    counts: Mapping[str, float]
    client: str = ""
    """As that of a job."""


@dataclass(frozen=True)
class Clients:
    """What `fio --client` says in addition to the jobs of its servers. fio calls each connection to one a client."""

    total: Job | None = None
    """Its own sum, the entry "All clients". It has none for one job, nor where a client has ended too early."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Clients without results, as fio names them, and why."""
    unattributed: Sequence[str] = ()
    """Options of [global] sections of which fio does not say whose they are. They are in no job's options."""


@dataclass(frozen=True)
class Results:
    """One run of fio. `version` is its version line; `messages` the text around its results."""

    version: str
    jobs: Sequence[Job]
    disks: Sequence[Disk] = ()
    messages: str = ""
    started_unix_s: float = 0.0
    clients: Clients | None = None
    """None where fio made the load itself."""
    warnings: Sequence[Warning_] = ()
    spoiled: Sequence[str] = ()
    """Fields in which fio printed no number (`-nan`), and latencies of which such a field is one."""


def error_number(printed: int | str, what: str) -> int:
    """An errno as fio prints it: also negative, or as an unsigned number of 32 bits. InputError names `what`."""
    text = str(printed)
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise InputError(f"{what} is {text[:60]!r}; expected the number of an error, or 0")
    number = int(text)
    return abs(number - 2**32 if 2**31 <= number < 2**32 else number)


def error_words(number: int) -> str:
    """What the kernel calls an error, and its name: `No space left on device (ENOSPC)`."""
    if number == errno.EILSEQ:  # which the C library has as "Invalid or incomplete multibyte or wide character"
        return "Data that were read do not verify (EILSEQ)"
    return f"{os.strerror(number)} ({errno.errorcode[number]})" if number in errno.errorcode else f"Error {number}"


def rate_misfits(name: str, volume: float, seconds: float, per_s: float, *steps: float) -> list[Misfit]:
    """As `quotient` of bytes, with the unit in which the rate would be right where 1000 and 1024 were mixed up."""
    found = quotient(name, volume, seconds, per_s, *steps)
    for power, (unit, other) in product((1, 2, 3), ((1000, 1024), (1024, 1000))) if found else ():
        if not quotient(name, volume, seconds, per_s * (unit / other) ** power, *steps):
            return [replace(found[0], name=f"{name} (right if {'KMG'[power - 1]}B is of {unit}s, not of {other}s)")]
    return found


def final_reports(reports: Sequence[Results], least_s: float = 0.1) -> list[Results]:
    """Without those that the next one continues: with --status-interval fio reports the same run again and again.

    `least_s`: the interval; where no time of day is known, the first two are no less apart.
    """
    kept, earlier = list[Results](), 0
    for report, following in zip(reports, [*reports[1:], None], strict=True):
        if following is not None and _continues(report, following, 0.0 if earlier else least_s):
            earlier += 1
            continue
        text = f"of {earlier + 1} reports whose numbers grow the last counts, as of one run with --status-interval"
        guess = earlier and not report.started_unix_s
        warnings = [*report.warnings, Warning_("reports-repeated", text)] if guess else report.warnings
        kept.append(replace(report, warnings=warnings))
        earlier = 0
    return kept


def _continues(earlier: Results, later: Results, least_s: float) -> bool:
    """Whether it is of the same run, by jobs that are the same, and amounts, times and extremes that grew.

    A run that begins after the first report cannot have lasted as long as has passed since. Where a format has no time
    of day, the times of two runs differ by less than an interval of reports, but for the last one's; no two runs have
    all numbers in common. Jobs that have not begun are missing in some formats.
    """
    rest, identity = iter(later.jobs), attrgetter("name", "group", "client")
    same = [next((one for one in rest if identity(one) == identity(job)), None) for job in earlier.jobs]
    pairs = [(before, after) for before, after in zip(earlier.jobs, same, strict=True) if after]
    # At the end of a ramp (ramp_time) fio drops all that it counted, and times requests from then on.
    after_ramp = [pair for pair in pairs if not _has_times(pair[0]) and _has_times(pair[1])]
    if None in same or not all(was <= now for pair in pairs if pair not in after_ramp for was, now in _growing(*pair)):
        return False
    ran_s = [elapsed_s(results.jobs, DIRECTIONS) for results in (earlier, later)]
    if earlier.started_unix_s and later.started_unix_s:
        return later.started_unix_s - earlier.started_unix_s < ran_s[1] + (ran_s[0] if after_ramp else 0)
    if after_ramp:
        return True
    if any(before.ios for before, _ in pairs) and all(one.directions == other.directions for one, other in pairs):
        return True
    grew = sum(job.ios for job in later.jobs) > sum(job.ios for job in earlier.jobs)
    return grew and (not least_s or ran_s[1] - ran_s[0] > least_s)


def _has_times(job: Job) -> bool:
    """Whether any request of a job was timed; also of a job without requests."""
    times = [one.max_ns for each in job.directions.values() if each.ios for one in each.latencies.values()]
    return not job.ios or any(times)


def _growing(before: Job, after: Job) -> Iterator[tuple[float, float]]:
    """Pairs of numbers, the first of which is no more than the second in reports of one run."""
    yield from zip(astuple(before.cpu)[2:], astuple(after.cpu)[2:], strict=True)
    for name, was in before.directions.items():
        now = after.directions.get(name, was)
        yield from ((was.ios, now.ios), (was.runtime_s, now.runtime_s))
        for kind, one in was.latencies.items():
            other = now.latencies.get(kind, one)
            yield from ((other.min_ns, one.min_ns + other.step_ns), (one.max_ns, other.max_ns + other.step_ns))


def in_direction(jobs: Sequence[Job], direction: str) -> list[Direction]:
    """What each job did in a direction; jobs without it are left out."""
    return [job.directions[direction] for job in jobs if direction in job.directions]


def by_client(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """The jobs of each client; those of fio itself under ''."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.client, []).append(job)
    return found


def elapsed_s(jobs: Sequence[Job], directions: Sequence[str]) -> float:
    """How long jobs took together. Clients begin together, and each runs its own stages one after the other."""
    return max((_elapsed_s(own, directions) for own in by_client(jobs).values()), default=0.0)


def _elapsed_s(jobs: Sequence[Job], directions: Sequence[str]) -> float:
    """The longest run time of each stage, added up: a group waits for the one before, unless it is a `new_group`."""
    longest_s: dict[int, float] = {}
    stage, group = 0, None
    for job in jobs:
        together = "new_group" in job.options and "stonewall" not in job.options
        if group is not None and job.group != group and not together:
            stage += 1
        group = job.group
        times_s = [job.directions[name].runtime_s for name in directions if name in job.directions]
        longest_s[stage] = max([longest_s.get(stage, 0.0), *times_s])
    return sum(longest_s.values())


def merged_latency(jobs: Sequence[Job], direction: str, kind: str) -> Latency | None:
    """A latency of all jobs as of one, also of the direction `sync`; None where none has it."""
    if direction == SYNC:
        return merged([job.sync_latency for job in jobs if job.sync_latency and kind == "lat"])
    return merged([each.latencies[kind] for each in in_direction(jobs, direction) if kind in each.latencies])


def merged(latencies: Sequence[Latency]) -> Latency | None:
    """Latencies as one; None of none, and of several with one of unknown count. fio's percentiles are of one job."""
    if len(latencies) < 2:
        return latencies[0] if latencies else None
    if not all(latency.count for latency in latencies):
        return None
    count = sum(latency.count for latency in latencies)
    mean_ns = sum(latency.mean_ns * latency.count for latency in latencies) / count
    squares = sum(
        latency.stddev_ns**2 * (latency.count - 1) + latency.count * (latency.mean_ns - mean_ns) ** 2
        for latency in latencies
    )
    bins: dict[int, int] = {}
    if all(latency.bins for latency in latencies):
        for latency in latencies:
            for value_ns, number in latency.bins.items():
                bins[value_ns] = bins.get(value_ns, 0) + number
    return Latency(
        count=count,
        mean_ns=mean_ns,
        stddev_ns=math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
        min_ns=min(latency.min_ns for latency in latencies),
        max_ns=max(latency.max_ns for latency in latencies),
        bins=bins,
        step_ns=max(latency.step_ns for latency in latencies),
    )


def client_name(host: str, port: int) -> str:
    """`HOST` at fio's own port, else `HOST:PORT`; the path of a socket, for which fio states a port as well."""
    if not host or host.startswith("/") or port in (0, _DEFAULT_PORT):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
