"""Statistics and log reading in Rust: the one definition of histogram, percentile and interval.

Everything here is pure but for the readers of logs, which open the file they are given. Arguments of
a wrong type raise TypeError, whole numbers out of range OverflowError, all else CoreError.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, final

from typing_extensions import Buffer

__version__: str
"""That of Cargo.toml, and so of the package."""

__all__ = [
    "CoreError",
    "DirectionBins",
    "DirectionSummary",
    "Histogram",
    "HistogramLogSummary",
    "LogSummary",
    "RefusalError",
    "Series",
    "SimulatedDrive",
    "Witness",
    "device_models",
    "device_serve",
    "drive_check",
    "filesuite_cells",
    "filesuite_run",
    "filesuite_tests",
    "fio_bin_ns",
    "offline_optimum",
    "percentile",
    "percentile_interval",
    "percentiles",
    "policies",
    "read_histogram_log",
    "read_log",
    "replay",
    "sampled_hits",
    "simulate",
    "simulate_all",
    "simulation_options",
    "state_label",
    "trace_formats",
    "trace_info",
    "trace_mrc",
    "trace_write",
    "unpack",
    "witness_capability",
    "witness_prepare",
]

class CoreError(ValueError):
    """What the core was given cannot be: the message names it, its value and what was wanted."""

class RefusalError(CoreError):
    """Going on could destroy something that is not ours: the message names it, and the option that mends it."""

@final
class Histogram:
    """Distribution of whole numbers from 0 to 2^64 - 1, mostly latencies in nanoseconds.

    Buckets are log-linear (the layout of HDR Histogram with three digits): values below 2048 are
    exact, all others true to within 0.05 %. Count, mean, deviation, minimum and maximum are exact.
    Histograms merge without loss, can be pickled and compared.
    """

    def __init__(self) -> None: ...
    @staticmethod
    def from_buckets(values_ns: Buffer | Iterable[int], counts: Buffer | Iterable[int]) -> Histogram:
        """The histogram of given values and how often each occurred, such as a tool's own bins.

        Buffers of 64-bit integers (numpy, array, arrow) are taken in one copy.
        CoreError if the columns are not of one length or hold anything but whole numbers.
        """
    def record(self, value_ns: int, count: int = 1) -> None:
        """Record one value, count times."""
    def record_many(self, values_ns: Buffer | Iterable[int]) -> None:
        """Record each of the values once; CoreError if one is not a whole number."""
    def merge(self, other: Histogram) -> None:
        """Add everything that other holds, as if it had been recorded here."""
    def quantile(self, q: float) -> float:
        """The quantile q, 0 to 1: 0.99 is the 99th percentile.

        Type 7 of Hyndman and Fan (1996), as numpy's default, over the buckets' values.
        CoreError if the histogram is empty or q is out of range.
        """
    def quantiles(self, qs: Buffer | Iterable[float]) -> list[float]:
        """Several quantiles, in the order asked for; errors as quantile."""
    def quantile_interval(self, q: float, confidence: float = 0.95) -> tuple[float, float]:
        """Bounds of the quantile q behind independent values, whatever their distribution.

        From order statistics and the exact binomial (David and Nagaraja, "Order Statistics", 7.1),
        widened to the buckets' edges. A side that so few values cannot bound is infinite: -inf or
        +inf. CoreError if the histogram is empty, or q or confidence are out of range.
        """
    def buckets(self) -> tuple[list[int], list[int]]:
        """The non-empty buckets in ascending order: the value that stands for each, and its count.

        from_buckets makes the same buckets of them again; mean and deviation are then those of the
        buckets' values, within 0.05 %.
        """
    @property
    def count(self) -> int:
        """Number of values."""
    @property
    def mean(self) -> float | None:
        """Exact mean of the values; None of no values."""
    @property
    def stddev(self) -> float | None:
        """Exact sample standard deviation (n - 1); None of fewer than two values."""
    @property
    def min(self) -> int | None:
        """Exact smallest value; None of no values."""
    @property
    def max(self) -> int | None:
        """Exact largest value; None of no values."""
    @property
    def uncounted(self) -> int:
        """Values that found no room because the count passed 2^64 - 1. Zero in any real run."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, state: Buffer) -> None: ...

@final
class Series:
    """Values of one direction, gathered into windows of time: parallel lists in order of time.

    Windows without a value are not there.
    """

    @property
    def window_ms(self) -> int:
        """Length of every window."""
    @property
    def start_ms(self) -> list[int]:
        """Start of each window, a multiple of its length, on the log's own clock."""
    @property
    def count(self) -> list[int]:
        """Number of values."""
    @property
    def sum(self) -> list[int]:
        """Sum of the values."""
    @property
    def mean(self) -> list[float]:
        """Mean of the values."""
    @property
    def min(self) -> list[int]:
        """Smallest value."""
    @property
    def max(self) -> list[int]:
        """Largest value."""

@final
class DirectionSummary:
    """Everything read of one direction of a log; values in the log's unit."""

    @property
    def histogram(self) -> Histogram:
        """Distribution of the values. The same object at every access."""
    @property
    def count(self) -> int:
        """Number of values."""
    @property
    def mean(self) -> float | None:
        """Exact mean of the values."""
    @property
    def stddev(self) -> float | None:
        """Exact sample standard deviation; None of a single value."""
    @property
    def min(self) -> int | None:
        """Exact smallest value."""
    @property
    def max(self) -> int | None:
        """Exact largest value."""
    @property
    def first_ms(self) -> int:
        """Smallest time in the log."""
    @property
    def last_ms(self) -> int:
        """Largest time in the log."""
    @property
    def time_reversals(self) -> int:
        """How often a line's time was before the line before: one job's log appended to another's."""
    @property
    def bytes(self) -> int:
        """Sum of the block sizes. Windowed logs say 0 for every line."""
    @property
    def series(self) -> Series:
        """The values gathered into windows of time."""

@final
class LogSummary:
    """Everything read of one bandwidth, IOPS or latency log."""

    @property
    def kind(self) -> str:
        """lat, clat, slat, bw or iops."""
    @property
    def unit(self) -> str:
        """Unit of all values: ns, bytes/s or iops."""
    @property
    def columns(self) -> int | None:
        """Columns of every line; None for a log without any line."""
    @property
    def both_values(self) -> bool:
        """Whether each line holds average and maximum (log_window_value=both)."""
    @property
    def lines(self) -> int:
        """Lines read, blank ones included."""
    @property
    def unterminated(self) -> bool:
        """Whether the last line lacks its line feed: fio was stopped while it wrote."""
    @property
    def directions(self) -> dict[str, DirectionSummary]:
        """By read, write and trim; only those that occur."""

@final
class DirectionBins:
    """Everything read of one direction of a histogram log."""

    @property
    def histogram(self) -> Histogram:
        """All lines together. Values are middles of fio's bins, true to within 1/128."""
    @property
    def lines(self) -> int:
        """Lines of this direction."""
    @property
    def looks_cumulative(self) -> bool:
        """Whether the lines look like running totals, as fio up to 2.14 wrote them."""

@final
class HistogramLogSummary:
    """Everything read of one histogram log."""

    @property
    def bins(self) -> int | None:
        """Bins of every line; None for a log without any line."""
    @property
    def coarseness(self) -> int | None:
        """fio's log_hist_coarseness: each bin joins 2^coarseness of the finest ones."""
    @property
    def unit_ns(self) -> int | None:
        """What the bins count in: 1 (fio 3), or 1000 for microseconds (fio 2)."""
    @property
    def lines(self) -> int:
        """Lines read, blank ones included."""
    @property
    def unterminated(self) -> bool:
        """Whether the last line lacks its line feed: fio was stopped while it wrote."""
    @property
    def directions(self) -> dict[str, DirectionBins]:
        """By read, write and trim; only those that occur."""

def filesuite_run(setup: dict[str, Any], on_pass: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
    """Do the file tests that setup describes; docs/filesuite.md says what each pass holds.

    on_pass is called with each pass as it comes. Returns clock_overhead_ns, passes, groups (the same pass of all
    workers), checked (files looked at afterwards) and iozone (header, rows and matrices as IOzone prints them).
    Sizes are in bytes. What goes wrong within a pass is its status and reason. CoreError for a setup that cannot be,
    RefusalError for a path that is left alone, OSError for a file that cannot be made. Other threads run meanwhile;
    Ctrl-C ends it, and the files are gone afterwards.
    """

def filesuite_cells(setup: dict[str, Any]) -> list[tuple[int, int]]:
    """File and record sizes that filesuite_run would measure, in bytes and in order. CoreError as there."""

def filesuite_tests() -> list[dict[str, Any]]:
    """The tests by number: number, about, names and kinds of their passes, and whether all of them means this too."""

def fio_bin_ns(index: int) -> int:
    """The latency that stands for bin number index of fio's finest histogram: its middle.

    The names of the bins in fio's JSON+ are these. CoreError if index is past 3775.
    """

def percentile(samples: Buffer | Iterable[float], q: float) -> float:
    """The quantile q (0 to 1) of samples in any order.

    Type 7 of Hyndman and Fan (1996), as numpy's default. CoreError for no samples, a NaN among
    them, or q out of range.
    """

def percentiles(samples: Buffer | Iterable[float], qs: Buffer | Iterable[float]) -> list[float]:
    """Several quantiles of the same samples, sorted once; in the order asked for."""

def percentile_interval(samples: Buffer | Iterable[float], q: float, confidence: float = 0.95) -> tuple[float, float]:
    """Bounds of the quantile q behind independent samples; see Histogram.quantile_interval."""

def read_log(path: str | PathLike[str], kind: str | None = None, window_ms: int = 1000) -> LogSummary:
    """Read a bandwidth, IOPS or latency log of fio in one pass and constant memory.

    kind is lat, clat, slat, bw or iops; without it, what the file's name says (`x_clat.1.log`).
    window_ms is the length of the windows of the series. Of log_window_value=both the average is
    read. Bandwidths are returned in bytes/s.

    CoreError with path, line and fault for the first bad line, for a compressed log and for options
    that cannot be; OSError with the path for a file that cannot be read. Other threads run meanwhile.
    """

def read_histogram_log(path: str | PathLike[str]) -> HistogramLogSummary:
    """Read a log of completion-latency histograms (fio's write_hist_log) in one pass. Errors as read_log."""

def replay(
    source: dict[str, Any],
    setup: dict[str, Any],
    on_progress: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Issue a trace on a file or block device through io_uring, at its own times or as fast as possible.

    source is that of `simulate`. Keys of setup (default): path (None: nothing is done, only timed), exclusive (true: a
    block device that is written must be nobody else's; false: the caller has claimed it), direct (true), size_bytes
    (all of the target), pace ("timed"; "fast"), depth (1024; 32), duration_ns (None), seed (0) of the data written,
    fixed (true: registered buffers), buffer_bytes (64 MiB for writes, and for reads), survey (true: a trace that can
    be read twice is read and checked first). The target is neither created nor made longer or shorter.

    Returns, in nanoseconds of CLOCK_MONOTONIC: ended ("trace", "duration", "interrupted" by any exception of a
    signal's handler, or "failed" with reason), begin_ns and end_ns (first issue, last completion), span_ns (first to
    last due time), requests issued, skipped by the preparation, and changes; read, write, trim and sync, each with
    ios, bytes, errors and the distributions lat (issue to completion) and response (due time to completion) of those
    without error; lateness (due time to issue, of all), late (more than 50 µs), drift_ppm (slope of lateness over
    time), waits (why requests were held: depth, buffers, order, trace), times_back, most_outstanding, errors, failures
    (by kind and errno, 0 where too few bytes were moved, with the first), series (columns, a row for each second),
    cpu_ns of the issuing thread, spin_ns (how long before a due time it spins), ring and bounds (what kernel and
    target offer), census (None without a survey). A distribution has bins (of `fio_bin_ns`: count), mean_ns, min_ns,
    max_ns and stddev_ns.

    on_progress gets issued, completed, bytes, errors, late and trace_ns about every 100 ms; an Exception of it ends
    the replay and is raised, any other is taken for that of a signal. CoreError names a request that the target cannot
    take, OSError a target that cannot be opened; once requests were issued, both are a reason. Other threads of Python
    run meanwhile.
    """

def simulate(source: dict[str, Any], setup: dict[str, Any], threads: int = 1) -> dict[str, Any]:
    """Run a trace over a simulated SSD; counts, distributions and columns of what happened.

    source is what `ioassay.traces.source` makes, setup what `ioassay.simulator.setup` makes. Times
    of results are in picoseconds, those of histograms in nanoseconds. CoreError for what cannot be
    of the setup, and with the path and the line, byte or request for what is wrong with the trace;
    OSError with the path for a file that cannot be read. Up to `threads` share the work, with the same results. Other
    threads of Python run meanwhile; Ctrl-C ends it.
    """

def simulate_all(source: dict[str, Any], setups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run one pass of a trace over several simulated SSDs, each in a thread; what `simulate` returns for each.

    Errors as `simulate`, of the first setup that has one.
    """

def sampled_hits(source: dict[str, Any], setups: list[dict[str, Any]], rate: float) -> dict[str, Any]:
    """Estimate the hit ratios of write buffers, one for each of the setups, from about `rate` of a trace's pages.

    `hits` has for each the requests and pages of the trace, the sampled ones, and ratios with `value` and `error`.
    Errors as of `simulate`; CoreError for a buffer that cannot be sampled.
    """

class SimulatedDrive:
    """A simulated SSD that stays in memory between runs.

    setup is that of `simulate` without files of states; its feed holds for runs that are given none. Errors as
    `simulate`. Methods may be called from any thread, one at a time.
    """

    def __new__(cls, setup: dict[str, Any]) -> SimulatedDrive: ...
    @property
    def pages(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    def copy(self) -> SimulatedDrive:
        """A drive in the same state."""
    def set_timing(self, options: dict[str, Any]) -> None:
        """Change options with `is_timing`; CoreError names another one, and leaves the drive as it was."""
    def rest(self, seconds: float) -> None:
        """No request comes for some time, in which the drive may fold and collect garbage."""
    def run(
        self, source: dict[str, Any], feed: dict[str, Any] | None = None, *, latencies: bool = False
    ) -> dict[str, Any]:
        """Run a trace on the drive as the last run left it, from time 0 on; what `simulate` returns.

        With latencies also `latency_us`: for each request, in order of issue, a float64 in microseconds, nan without a
        completion. An error in the run leaves a drive that cannot be used, but copies of it can.
        """

def state_label(path: str | PathLike[str]) -> str:
    """The text that a saved state was given; CoreError for a file that is none, or damaged."""

def unpack(paths: Sequence[str | PathLike[str]], folder: str | PathLike[str]) -> list[tuple[str, Path]]:
    """Unpack the files in `paths`, and in folders of them, below `folder`; how each is called, and where it is.

    They may be in gzip, bzip2, xz, Zstandard, zip and tar, also in each other, told by their content; text in UTF-16,
    or with a byte order mark, becomes UTF-8. Files that lay together lie together afterwards; plain ones, and what is
    no file, stay where they are. CoreError, or OSError with the path, names what is damaged, has a password, or is more
    than a thousand times as large as it looks.
    """

def device_models() -> list[tuple[str, str]]:
    """Names of the models that a served drive may have, and what they are."""

def device_serve(options: str, ready: Callable[[str], None]) -> str:
    """Serve drives, each until a request stops it, and all until SIGTERM, SIGINT or SIGHUP; what each counted, as JSON.

    `options` is a JSON list (crates/device, `server::Options`); `ready` is called once with one (`server::Ready`) when
    clients can connect. Several drives have a thread each, and {"error": …} is of one of them that failed. The GIL is
    released. Raises ValueError for options that are none, CoreError for what cannot be.
    """

def drive_check(setup: dict[str, Any]) -> dict[str, int]:
    """Whether a setup can be: CoreError as of `simulate`, or pages, bytes and needed memory of its drive."""

def offline_optimum(source: dict[str, Any], setup: dict[str, Any]) -> tuple[int, int]:
    """Page writes of a trace, and the most of them that a buffer of the setup's size could have as hits.

    source, setup and errors as of `simulate`; policy and mode do not matter. The trace is read once.
    """

def policies() -> list[dict[str, Any]]:
    """The write buffers: name, what they do in a line, the options that they know."""

def simulation_options() -> list[tuple[str, list[dict[str, Any]]]]:
    """The options of a simulation: pairs of a group and its rows (name, kind, unit, default, range, choices, about)."""

def trace_formats() -> list[dict[str, Any]]:
    """The formats of traces: name, about, endings of file names, text or binary, columns, whether it is written."""

def trace_info(source: dict[str, Any], page_bytes: int = 4096) -> dict[str, Any]:
    """What a source of requests is like, in one pass and memory that does not grow with it.

    source is what `ioassay.traces.source` makes, or {"recording": {"path": …}} of a file that a Witness
    wrote, with "own": True for the process tree's requests only and "device": "8:0" for one device's.
    CoreError with the path and the line, byte or
    request for what is wrong with the trace, and for options that cannot be; OSError with the path
    for a file that cannot be read. Other threads run meanwhile; Ctrl-C ends it. `cache` of the result
    says what the cache of parsed traces did (read, written, note), and what of an archive was left_out.
    """

def trace_mrc(
    source: dict[str, Any],
    page_bytes: int,
    of: str,
    points: int,
    *,
    rate: float | None = None,
    pages: int | None = None,
    exact: bool = False,
    memory_bytes: int | None = None,
) -> dict[str, Any]:
    """The miss ratio curve of LRU buffers, at up to so many sizes in a geometric series.

    of is reads, writes or both. rate or pages sample; with exact, the exact curve is computed beside the
    sampled one. Errors as trace_info; CoreError where the pages need more memory than memory_bytes.
    """

def trace_write(
    source: dict[str, Any],
    path: str | PathLike[str] | None,
    format: str,
    *,
    compress: str | None = None,
    lose: list[str] | None = None,
) -> dict[str, Any]:
    """Write the requests of a source as a trace to path, or to standard output without one.

    compress is gzip or zstd. lose names what may be lost where the format cannot hold it:
    alignment, devices, kinds. Returns the names of both formats and counts of what was changed.
    What stands at path is overwritten; after an error it is not whole. Errors as trace_info.
    """

@final
class Witness:
    """BPF programs that watch a process tree, attached until this is finished or dropped.

    level is block, syscalls or record, with record the file that every block request is written to;
    layers names what is watched besides (syscalls beside record); oldest among them takes the programs
    for older kernels, to try them. running prepares it for processes that run already (adopt), of a
    cgroup of the unified hierarchy by the inode of its folder. listing names a file for a line of each call
    on a file, '' wants a sample in the result. OSError when nothing can be watched here,
    with the reason and the remedy; what this kernel lacks is left out and told in the result.
    """

    def __new__(
        cls,
        level: str,
        record: str | PathLike[str] | None = None,
        layers: list[str] | None = None,
        *,
        running: bool = False,
        cgroup: int = 0,
        listing: str | None = None,
    ) -> Witness: ...
    def follow(self, pid: int) -> None:
        """Follow a process, its threads and all that they start from now on; OSError if there is none."""
    def adopt(self, processes: list[int], threads: list[int]) -> int:
        """Follow tasks that run already: processes by their ids, threads beside each first one by theirs.

        Returns how many were not followed before; those that have ended are left out. OSError when the
        kernel refuses.
        """
    def finish(self, paths: Mapping[tuple[str, int], str] | None = None) -> str:
        """Wait shortly for requests under way, detach, and say what was seen.

        paths are those of files that were open before, by device ('8:0') and inode, for the listing.

        JSON with these keys of ioassay.records.observation.Observation: layers, why, kernel, processes, threads,
        most_alive, calls, call_errors, operations, files, sessions, block, health, cost; and
        listing: how many calls were listed, of a sample the files with their lines. ValueError the second time.
        """

def witness_capability() -> str:
    """Why BPF programs cannot be attached here, with the remedy; '' when they can."""

def witness_prepare(level: str) -> None:
    """Begin to load the programs for a `Witness` at `level` in a thread, while the caller does something else.

    ValueError for a level without programs. What cannot be loaded is said by whoever needs it.
    """
