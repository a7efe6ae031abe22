"""The registry of metrics: unit, direction of better, label and formatter of every public number.

Names are `<direction>.<quantity>[.<statistic>]`, for example `read.bw`, `write.clat.p99`, `cpu.usr`.
A name that no rule knows is still usable: it has no unit and no better direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ioassay import units

RATE, SHARE, SIGNED = "rate", "share", "signed"
Bounds = tuple[float, float]
DIRECTIONS = ("read", "write", "trim", "sync")
"""Of requests, and synchronisations, which move nothing: of those there are a number and latencies."""
LATENCY_KINDS = ("slat", "clat", "lat")
KERNEL_CALLS = ("sync", "fsync", "fdatasync", "sync_file_range", "syncfs", "msync", "synchronous_write")
"""What the witness timed, as in `kernel.fdatasync.lat.p99`: all synchronisations together, each of the system calls,
and writes that are synchronised themselves."""
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""Of every distribution, in percent: what drivers compute, analyses estimate and the report shows."""
_TIMES = ("ns", "µs", "ms", "s")


@dataclass(frozen=True)
class Metric:
    """What a metric is. `better` is 'higher', 'lower' or 'none'; `unit` is the unit of the stored number.

    `kind` is 'rate' for work of the whole load a second, which laws of scaling describe; 'share' for what lies between
    0 and 1; 'signed' for what may be negative; '' for everything else, such as what one worker does, and times.
    """

    name: str
    unit: str
    better: str
    label: str
    format: Callable[[float], str]
    kind: str = ""

    @property
    def is_speed(self) -> bool:
        """Whether more or less of it is faster: rates, and times that a request or a test takes."""
        return (
            self.better != "none"
            and (self.kind == RATE or self.unit in _TIMES or self.unit.endswith("/s"))
            and not self.name.startswith("cpu.")
        )

    @property
    def counts_operations(self) -> bool:
        """Whether it is a number of operations a second, whatever each of them is."""
        return self.unit in ("IOPS", "ops/s", "bogo ops/s", "events/s")

    @property
    def bounds(self) -> Bounds | None:
        """Between what all its values lie, both ends included; None where only its values can tell."""
        if self.kind == SHARE:
            return (0.0, 1.0)
        if self.kind == SIGNED:
            return (-math.inf, math.inf)
        return (0.0, math.inf) if self.unit or self.kind == RATE else None


@dataclass(frozen=True)
class LatencyPercentile:
    """A percentile of a latency, such as `read.lat.p99`: of which direction and kind, in percent.

    Of what the kernel timed the direction is `kernel.fdatasync`.
    """

    direction: str
    kind: str
    percent: float


def direction_of(name: str) -> str:
    """What a metric is of: `read`, `sync`, `kernel.fdatasync`."""
    return ".".join(name.split(".")[: 2 if name.startswith("kernel.") else 1])


def requests_of(direction: str) -> str:
    """Its requests in words: `reads`, `synchronisations`, `calls of fdatasync`."""
    call = direction.removeprefix("kernel.")
    return f"{direction}s" if call in DIRECTIONS[:3] else _WORDS["calls"](call)


def percentile_name(percent: float) -> str:
    return f"p{percent:g}"


USUAL = (
    *(f"{direction}.{quantity}" for direction in DIRECTIONS[:3] for quantity in ("bw", "iops")),
    *(
        f"{direction}.{kind}.{statistic}"
        for direction in DIRECTIONS
        for kind in (LATENCY_KINDS if direction != "sync" else ("lat",))
        for statistic in ("mean", "max", *map(percentile_name, PERCENTILES))
    ),
    *(f"kernel.{call}.{counted}" for call in KERNEL_CALLS for counted in ("ios", "lat.p50", "lat.p99")),
    *("bogo_ops_real_rate", "bogo_ops_cpu_rate", "cpu_used", "real_time", "rss_max", "value"),
    *("sim.hit_ratio", "sim.write_amplification", "sim.erases", "sim.utilisation", "cpu.usr", "cpu.sys"),
)
"""Metrics of most loads: what is offered where a name is wanted or wrong."""


def is_percentile(name: str) -> bool:
    return re.search(r"\.p\d+(?:\.\d+)?$", name) is not None


def latency_percentile(name: str) -> LatencyPercentile | None:
    """What percentile a metric is; None for every other metric, and for one of a single job."""
    match = _LATENCY_PERCENTILE.fullmatch(name)
    return LatencyPercentile(match["dir"], match["kind"], float(match["percent"])) if match else None


def counts_from_issue(name: str) -> bool:
    """Whether it is a latency that a tool began to count when it issued a request, not when the request was due."""
    return re.match(r"(?:read|write|trim|total)\.c?lat\.", name) is not None


def plain(value: float) -> str:
    """Four digits, without a unit."""
    return f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{value:.1f} %"


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _signed_share(value: float) -> str:
    return _share(value)


def _yes(value: float) -> str:
    return "yes" if value else "no"


def _capitalised(text: str) -> str:
    """`random_read` as a label: `Random read`."""
    return text.replace("_", " ").capitalize()


_STATISTICS = {"mean": "mean", "stddev": "standard deviation", "min": "minimum", "max": "maximum", "p50": "median"}
_WORDS: Mapping[str, Callable[[str], str]] = {
    "dir": lambda text: {"read": "Read", "write": "Write", "trim": "Trim", "total": "Total", "sync": "Synchronisation"}[
        text
    ],
    "kind": lambda text: {"slat": "submission latency", "clat": "completion latency", "lat": "total latency"}[text],
    "stat": lambda text: _STATISTICS.get(text, f"{text[1:]}th percentile"),
    "short": lambda text: _STATISTICS.get(text, text),
    "call": lambda text: {"sync": "synchronisation", "synchronous_write": "synchronous writes"}.get(text, text),
    "calls": lambda text: {"sync": "synchronisations", "synchronous_write": "synchronous writes"}.get(
        text, f"calls of {text}"
    ),
    "of": lambda text: {"event": "an event", "entry": "a file or folder"}[text],
    "pass": _capitalised,
    "scale": _capitalised,
    "said": lambda text: _capitalised(text.removesuffix("_mb_per_s")),
}
"""Group of a rule's pattern -> how its text stands in a label; others stand as they are."""
_Row = tuple[str, str, str, str, Callable[[float], str]] | tuple[str, str, str, str, Callable[[float], str], str]
"""Pattern of the whole name, unit, better, label with the pattern's groups, form of a value, kind of the metric."""


def _rate(pattern: str, unit: str, label: str, format: Callable[[float], str]) -> _Row:
    """Work of all workers together, a second."""
    return pattern, unit, "higher", label, format, RATE


def _extra(pattern: str, unit: str, better: str, format: Callable[[float], str] = plain) -> _Row:
    """What a stressor counts beside its bogo operations; the name is stress-ng's description of it.

    stress-ng gives the mean of the workers, not their sum, so that none is a rate of the whole.
    """
    return rf"extra\.(?P<said>{pattern})", unit, better, "{said}", format


def _below(prefix: str, *rows: _Row) -> Iterator[_Row]:
    return ((rf"{prefix}\.{name}", *rest) for name, *rest in rows)  # type: ignore[misc]


_BENCHMARK = (
    r"(?P<bench>(?:fill|read|multi|mix|over|update|append|merge|seek|delete|xor|random|new|time|crc|xx|get)\w*)"
)
"""Benchmarks of db_bench, by how their names begin."""
_ANY = r"(?P<bench>\w+)"
"""Tests of any tool that counts operations on keys."""
_OF_LOAD = re.compile(rf"^(?:{_BENCHMARK}|load)\.(?P<counted>(?:rocksdb|drive)\..+)$")
"""What RocksDB and its drive counted for one load."""
_DIR = r"(?P<dir>read|write|trim|total)"
_LATENCY = r"(?P<dir>read|write|trim|total|sync)\.(?P<kind>slat|clat|lat)"
_STATISTIC = r"mean|stddev|min|max|p\d+(?:\.\d+)?"
_STAT = f"(?P<short>{_STATISTIC})"
_WAY = "(?P<way>read|write|trim|flush)"
_PASS = (
    r"(?P<pass>rewrite|reread|random_read|random_write|random_mix|backward_read|record_rewrite|stride_read"
    r"|fwrite|frewrite|fread|freread|p(?:write|read)v?|rep(?:write|read)v?)"
)
"""Passes of file tests (drivers filesuite and iozone); their write and read are the directions above."""
_KERNEL = f"(?P<call>{'|'.join(KERNEL_CALLS)})"
_LATENCY_PERCENTILE = re.compile(
    rf"(?P<dir>read|write|trim|total|sync|kernel\.{_KERNEL})\.(?P<kind>slat|clat|lat)\.p(?P<percent>\d{{1,2}}(?:\.\d+)?)"
)
_ROWS: tuple[_Row, ...] = (
    _rate(rf"{_DIR}\.bw", "bytes/s", "{dir} bandwidth", units.format_rate),
    _rate(rf"{_DIR}\.iops", "IOPS", "{dir} IOPS", units.format_count),
    (r"sync\.ios", "", "none", "Number of synchronisations", units.format_count),
    (rf"{_DIR}\.ios", "requests", "none", "{dir} requests", units.format_count),
    (rf"{_DIR}\.bytes", "bytes", "none", "{dir} volume", units.format_size),
    (rf"{_DIR}\.runtime", "s", "none", "{dir} run time", units.format_duration),
    (rf"{_LATENCY}\.(?P<stat>{_STATISTIC})", "ns", "lower", "{dir} {kind}, {stat}", units.format_ns),
    _rate(rf"{_PASS}\.bw", "bytes/s", "{pass} bandwidth", units.format_rate),
    _rate(rf"{_PASS}\.iops", "IOPS", "{pass} IOPS", units.format_count),
    (rf"{_PASS}\.lat\.{_STAT}", "ns", "lower", "{pass} latency, {short}", units.format_ns),
    _rate(r"load\.ops_rate", "ops/s", "Rate", units.format_count),
    (rf"load\.op_time\.{_STAT}", "ns", "lower", "Time of an operation, {short}", units.format_ns),
    _rate(rf"{_ANY}\.ops_rate", "ops/s", "Rate of {bench}", units.format_count),
    _rate(r"generated\.bw", "bytes/s", "Bandwidth of all generated requests", units.format_rate),
    _rate(rf"{_BENCHMARK}\.bw", "bytes/s", "Keys and values of {bench}", units.format_rate),
    (rf"{_ANY}\.ops", "ops", "none", "Operations of {bench}", units.format_count),
    (rf"{_ANY}\.op_time\.{_STAT}", "ns", "lower", "Time of an operation of {bench}, {short}", units.format_ns),
    (rf"{_BENCHMARK}\.found", "", "higher", "Keys that {bench} found", _share),
    *_below("rocksdb",
        ("user_bytes", "bytes", "none", "Written by users", units.format_size),
        ("wal_bytes", "bytes", "lower", "Written to the log", units.format_size),
        ("flush_bytes", "bytes", "lower", "Written by flushes", units.format_size),
        ("compaction_read_bytes", "bytes", "lower", "Read by compactions", units.format_size),
        ("compaction_write_bytes", "bytes", "lower", "Written by compactions", units.format_size),
        ("write_amplification", "", "lower", "RocksDB's write amplification", plain),
        ("stall_time", "s", "lower", "Time in which writes were held up", units.format_duration),
        ("cache_hit_ratio", "", "higher", "Hits of the block cache", _share),
    ),
    (rf"{_DIR}\.cache_hit_ratio", "", "none", "{{dir}} requests that the page cache answered", _share),
    _rate(r"steady\.bw", "bytes/s", "Bandwidth in the steady state", units.format_rate),
    _rate(r"steady\.iops", "IOPS", "IOPS in the steady state", units.format_count),
    (r"latency_target\.depth", "requests", "higher", "Queue depth within the latency target", plain),
    (r"cpu\.per_io", "ns", "lower", "Processor time of a request", units.format_ns),
    (r"cpu\.uncounted", "%", "none", "CPU of threads that the tool leaves out", _percent),
    (r"cpu\.(?P<state>\w+)", "%", "none", "CPU {state}", _percent),
    _rate(r"event\.rate", "events/s", "Rate of events", units.format_count),
    _rate(r"entry\.rate", "entries/s", "Rate of files and folders", units.format_count),
    _rate(r"sync\.rate", "1/s", "Synchronisations a second", units.format_count),
    _rate(r"memory\.bw", "bytes/s", "Memory bandwidth", units.format_rate),
    (rf"(?P<of>event|entry)\.time\.{_STAT}", "ns", "lower", "Time of {of}, {short}", units.format_ns),
    _rate(r"score\.bw", "bytes/s", "Bandwidth of a test", units.format_rate),
    (r"cost\.time", "s", "lower", "Time of a test", units.format_duration),
    _rate(r"score\.(?P<scale>\w+)", "", "{scale}", plain),
    (r"cost\.(?P<scale>\w+)", "", "lower", "{scale}", plain),
    (r"layer\.bytes", "bytes", "lower", "Written", units.format_size),
    _rate(r"pass\.bw", "bytes/s", "Bandwidth", units.format_rate),
    (r"pass\.difference", "%", "none", "Difference from the claim", lambda value: f"{value:+.2f} %", SIGNED),
    (r"syscalls\.rate", "1/s", "none", "System calls a second", units.format_count),
    (r"start\.late", "ns", "none", "Start after the common instant", units.format_ns, SIGNED),
    (r"start\.uncertainty", "ns", "none", "Uncertainty of the clocks", units.format_ns),
    _rate(r"value", "", "Value", plain),  # of the null drivers, which stand for others
    ("bogo_ops", "bogo ops", "none", "Number of bogo operations", units.format_count),
    ("bogo_ops_real_rate", "bogo ops/s", "higher", "Rate of bogo operations", units.format_count, RATE),
    ("bogo_ops_cpu_rate", "bogo ops/s", "higher", "Rate of bogo operations in CPU time", units.format_count),
    ("real_time", "s", "none", "Time that the workers ran", units.format_duration),
    ("usr_time", "s", "none", "CPU time in user space", units.format_duration),
    ("sys_time", "s", "none", "CPU time in the kernel", units.format_duration),
    ("cpu_used", "%", "none", "CPU used by each worker", _percent),
    ("rss_max", "bytes", "none", "Largest resident set of a worker", units.format_size),
    ("workers_started", "workers", "none", "Number of workers started", plain),
    ("processes", "processes", "none", "Number of processes", units.format_count),
    ("sub_processes", "processes", "none", "Number of processes that workers started", units.format_count),
    ("threads", "threads", "none", "Number of threads beside each process's first", units.format_count),
    ("tasks_at_once", "tasks", "none", "Most processes and threads at once", units.format_count),
    ("context_switches", "switches", "none", "Number of context switches", units.format_count),
    ("(?:major|minor)_faults", "faults", "none", "Number of page faults", units.format_count),
    _extra(r"\w+_mb_per_s", "MB/s", "higher", lambda value: f"{value:.4g} MB/s"),
    _extra(r"nanosecs?_per_\w+|\w+_in_nanosecs?", "ns", "lower", units.format_ns),
    _extra(r"microsecs?_per_\w+", "µs", "lower", lambda value: f"{value:.4g} µs"),
    _extra(r"millisecs?_per_\w+", "ms", "lower", lambda value: f"{value:.4g} ms"),
    _extra(r"\w+_per_sec(?:ond)?(?:_\w+)?", "1/s", "higher", units.format_count),
    _extra(r"\w+", "", "none"),
    *_below("kernel",
        (rf"{_KERNEL.replace('call', 'calls')}\.ios", "", "none", "Number of {calls}", units.format_count),
        (rf"{_KERNEL}\.lat\.(?P<stat>{_STATISTIC})", "ns", "lower", "Kernel's time of {call}, {stat}", units.format_ns),
    ),
    *_below("drive",
        (rf"{_WAY}\.lat\.{_STAT}", "ns", "lower", "Drive's own {way} latency, {short}", units.format_ns),
        (rf"{_WAY}\.ios", "requests", "none", "Requests to {way} that the drive counted", units.format_count),
        (rf"(?!flush){_WAY}\.bytes", "bytes", "none", "Bytes of {way}s that the drive counted", units.format_size),
        (rf"late\.{_STAT}", "ns", "lower", "Answers later than the model's time, {short}", units.format_ns),
        ("errors", "requests", "lower", "Requests that the drive answered with an error", units.format_count),
        ("faults", "faults", "none", "Faults of the drive that struck", units.format_count),
        ("depth", "requests", "none", "Requests in the drive when one came", plain),
        ("cpu", "%", "none", "CPU time of the drive's process", _percent),
        ("floor", "ns", "lower", "Transport's own round trip", units.format_ns),
        ("block_device", "", "none", "Drive is a block device", _yes),
        ("hit_ratio", "", "higher", "Share of written pages found in the drive's buffer", _share),
        ("read_hit_ratio", "", "higher", "Share of read pages found in the drive's buffer", _share),
        ("write_amplification", "", "lower", "Drive's write amplification", plain),
        ("erases", "blocks", "lower", "Blocks that the drive erased", units.format_count),
        ("flash.bytes", "bytes", "lower", "Bytes that the drive programmed into its flash", units.format_size),
        ("mapping_hit_ratio", "", "higher", "Share of read pages found in the drive's mapping cache", _share),
        ("translation_reads", "pages", "lower", "Translation pages that the drive read", units.format_count),
        ("translation_writes", "pages", "lower", "Translation pages that the drive wrote", units.format_count),
    ),
    *_below("sim",
        ("hit_ratio", "", "higher", "Share of written pages found in the buffer", _share),
        ("optimum_hit_ratio", "", "none", "Share of written pages that the optimum finds in the buffer", _share),
        ("gain_share", "", "higher", "Share of the possible gain in write hits", _signed_share),
        ("read_hit_ratio", "", "higher", "Share of read pages found in the buffer", _share),
        ("write_amplification", "", "lower", "Write amplification", plain),
        ("erases", "blocks", "lower", "Erased blocks", units.format_count),
        ("cleanings", "blocks", "lower", "Cleaned blocks", units.format_count),
        ("moved_pages", "pages", "lower", "Pages moved by cleaning", units.format_count),
        ("written_pages", "pages", "none", "Pages written to flash for the host", units.format_count),
        ("slc_pages", "pages", "none", "Pages written to the SLC region", units.format_count),
        ("folded_pages", "pages", "lower", "Pages folded", units.format_count),
        ("slc_free_share", "", "higher", "Free share of the SLC region", _share),
        ("dead_blocks", "blocks", "lower", "Blocks worn out", units.format_count),
        ("mapping_hit_ratio", "", "higher", "Share of pages read whose entry is in the mapping cache", _share),
        ("mapping_hits", "pages", "none", "Pages read whose entry is in the mapping cache", units.format_count),
        ("mapping_misses", "pages", "lower", "Pages read whose entry is not there", units.format_count),
        ("translation_reads", "pages", "lower", "Translation pages read from flash", units.format_count),
        ("translation_writes", "pages", "lower", "Translation pages written to flash", units.format_count),
        ("utilisation", "", "none", "Mean utilisation of the flash elements", _share),
        ("outstanding", "requests", "none", "Outstanding requests", units.format_count),
        ("saturated", "", "none", "Saturated", _yes),
        ("unfinished", "requests", "none", "Requests that were not completed", units.format_count),
        ("span", "s", "none", "Simulated time", units.format_duration),
        ("wall", "s", "none", "Time that the simulation took", units.format_duration),
    ),
)  # fmt: skip


_RULES = tuple((re.compile(f"^{row[0]}$"), row) for row in _ROWS)
_KINDS: Mapping[Callable[[float], str], str] = {_share: SHARE, _signed_share: SIGNED}
"""Form of a value -> the kind of metrics that have it and state none."""


def metric(name: str) -> Metric:
    """The metric called `name`; an unknown name has unit '' and better 'none'.

    `<job>/<metric>` is that metric of one job of a load that has several; `<load>.rocksdb.<count>` and
    `<load>.drive.<count>` are counts of one load of a database.
    """
    scope, slash, inner = name.rpartition("/")
    if slash:
        whole = metric(inner)
        return Metric(name, whole.unit, whole.better, f"{scope}: {whole.label}", whole.format, whole.kind)
    if match := _OF_LOAD.match(name):
        whole = metric(match["counted"])
        label = f"{match['bench']}: {whole.label}" if match["bench"] else whole.label
        return Metric(name, whole.unit, whole.better, label, whole.format, whole.kind)
    return _of_rule(name) or _OF_DRIVERS.get(name) or _OF_STUDIES.get(name) or Metric(name, "", "none", name, plain)


def known(name: str) -> bool:
    """Whether the registry describes `name`, or what stands after the job's name in it."""
    inner = name.rpartition("/")[2]
    if match := _OF_LOAD.match(inner):
        return known(match["counted"])
    return inner in _OF_DRIVERS or inner in _OF_STUDIES or known_by_rule(inner)


def known_by_rule(name: str) -> bool:
    """Whether the registry itself describes `name`, so that no driver and no study may."""
    return _of_rule(name) is not None


@lru_cache(maxsize=2**12)
def _of_rule(name: str) -> Metric | None:
    """The metric of the first rule that fits: a name is looked up for each number of a page."""
    for pattern, (_, unit, better, form, format, *kind) in _RULES:
        if match := pattern.match(name):
            words = {group: _WORDS.get(group, str)(text) for group, text in match.groupdict().items()}
            # Of all directions together it is the total latency, not the "total total latency"; a synchronisation
            # has no other.
            label = form.format(**words).replace("Total total", "Total").replace("ation total", "ation")
            return Metric(name, unit, better, label, format, kind[0] if kind else _KINDS.get(format, ""))
    return None


_OF_DRIVERS: dict[str, Metric] = {}
_OF_STUDIES: dict[str, Metric] = {}


def add(own: Iterable[Metric]) -> None:
    """Add the metrics that only one driver has; ValueError for a name without a dot, which a factor may have."""
    for each in own:
        if "." not in each.name or known_by_rule(each.name):
            raise ValueError(f"'{each.name}' cannot be a driver's own metric; expected a new name such as tool.speed")
        _OF_DRIVERS[each.name] = each


def declare(own: Iterable[Metric]) -> None:
    """Add metrics that a study declares. Those of the registry and of drivers keep their meaning."""
    _OF_STUDIES.update((each.name, each) for each in own)


class LowerBound(float):
    """A value that the true one is not below. Texts and tables that show it say so, and need not know why."""


def lower_bounds(values: Iterable[float]) -> tuple[int, ...]:
    """The places of values that are lower bounds."""
    return tuple(place for place, value in enumerate(values) if isinstance(value, LowerBound))


def format_metric(name: str, value: float) -> str:
    """`value` of the metric `name` with its unit, for people."""
    shown = metric(name).format(value)
    return f"\N{GREATER-THAN OR EQUAL TO}\N{NO-BREAK SPACE}{shown}" if isinstance(value, LowerBound) else shown
