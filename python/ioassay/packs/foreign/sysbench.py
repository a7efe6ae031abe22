"""What sysbench's fileio test claims: a read and a write of one interval, with its synchronisations.

sysbench prints rates to a hundredth and one exact number, its events: requests and those synchronisations that it makes
between them, but not those after the last request. The interval behind the rates ends after these, and is longer than
the printed total time. Events divided by the sum of the rates give it, and with it the number of requests of each
kind; they are claimed where they come out whole within the rounding of the rates, else as bytes with that uncertainty.
Latencies are those of events: they are claimed of tests that do nothing but one kind of request, by calls that wait
for it (of asynchronous requests, an event is little more than their submission). The format is
that of sysbench 1.0. Tests other than fileio claim nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ioassay.errors import InputError
from ioassay.formats.number_parsing import parts_from, real, step_of, whole_number
from ioassay.formats.printed_quantity import NUMBER, last_line, size
from ioassay.formats.redundancy import between, equal
from ioassay.records.record import Claim, Misfit

NAME = "sysbench"
STREAM = "stdout"

_BANNER = re.compile(r"^sysbench \d", re.M)
_SECTION = "File operations:"
_OPTIONS = "Running the test with following options"
_LONGEST_PART = 20_000
_PREPARED = re.compile(rf"^([0-9]{{1,19}}) bytes written in {NUMBER} seconds(?: \(({NUMBER}) MiB/sec\))?", re.M)
_CREATED = re.compile(r"^Creating file (\S{1,200})$", re.M)
_FILES = re.compile(rf"^([0-9]{{1,9}}) files, ({NUMBER})([KMGT]?i?B) each$", re.M)
_BLOCK = re.compile(r"^Block size ([0-9]{1,9})([KMGT]?i?B)$", re.M)
_PERCENTILE = re.compile(rf"^\s*([0-9]{{1,3}})th percentile: +({NUMBER})$", re.M)
_SUMS = (
    re.compile(rf"^\s*total time: +({NUMBER})s$", re.M),
    re.compile(rf"^\s*events \(avg/stddev\): +({NUMBER})/{NUMBER}$", re.M),
    re.compile(rf"^\s*execution time \(avg/stddev\): +({NUMBER})/{NUMBER}$", re.M),
)
_TIMES = {name: rf"^\s*{name}: +({NUMBER})$" for name in ("min", "avg", "max", "sum")}
_LEAST_MS = 1e-3
_BUCKET_LOG = math.log(1e5 / _LEAST_MS) / 1023
"""Of its histogram, of 1024 values from 1 µs to 100 s, a percentile is one (sb_histogram.c)."""
_BUCKET_SHARE = 0.02
"""From one of them to the next."""
_LATE_S = 0.1
"""Between its total time and the interval behind its rates, at most; 1 ms in quiet runs."""
_MIB = float(2**20)
_MOST_FILES = 4096
"""Beyond it files are not named: a verdict then goes by what was opened."""
_HALF_STEP = 0.005
"""Of rates, which have two decimals."""
_LARGEST_ERROR = 0.25
LATENCY_STEP_NS = 1e4
_FEWEST_EVENTS = 10
"""With fewer the mean latency is less exact than half a microsecond."""


def matches(program: str) -> bool:
    """Whether this is sysbench."""
    return program == "sysbench"


def looks_like(text: str) -> bool:
    """Whether it has the results of a fileio test, or of making its files."""
    return (_SECTION in text and "fsyncs/s:" in text) or ("Creating files for the test" in text)


def split(text: str) -> list[str]:
    """A part for each run."""
    return parts_from(text, [match.start() for match in _BANNER.finditer(text)])


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of each test in their order, and of the files that were made; none of other tests than fileio."""
    claims = [_of_prepare(match, text) for match in _PREPARED.finditer(text)]
    for run in file_tests(text):
        claims += claims_of(run)
    if not claims and ("General statistics:" not in text or _SECTION in text):
        raise InputError(f"sysbench printed no results of a fileio test; its output ends with {last_line(text)}")
    return claims


def _of_prepare(match: re.Match[str], text: str) -> Claim:
    paths = _CREATED.findall(text[max(0, match.start() - _LONGEST_PART) : match.start()])
    rate = real(match[2], "sysbench's rate") * _MIB if match[2] else None
    return Claim(
        source=NAME,
        kind="write",
        test="prepare",
        bytes=whole_number(match[1], "sysbench's bytes"),
        rate_bytes_per_s=rate,
        rate_unit_bytes=step_of(match[2]) * _MIB if match[2] else 1.0,
        paths=tuple(paths),
    )


@dataclass(frozen=True)
class FileTest:
    """What one fileio test prints; rates of reads, writes and synchronisations a second."""

    rates: tuple[float, float, float]
    mib_per_s: tuple[str, str]
    events: int
    latency_ns: dict[str, float]
    total_s: float
    misfits: list[Misfit]
    block_bytes: int | None
    files: int
    file_bytes: int | None
    threads: int
    direct: bool | None
    engine: str
    syncs_at_end: bool
    syncs_each: bool


def file_tests(text: str) -> Iterator[FileTest]:
    """The fileio tests in an output, in their order."""
    start = 0
    while (place := text.find(_SECTION, start)) >= 0:
        head_start = text.rfind(_OPTIONS, start, place)
        head = text[head_start : min(place, head_start + _LONGEST_PART)] if head_start >= 0 else ""
        start = place + len(_SECTION)
        end = text.find(_OPTIONS, start)
        yield _run(head, text[start : min(end if end >= 0 else len(text), start + _LONGEST_PART)])


def _run(head: str, body: str) -> FileTest:
    rates = tuple(real(_value(body, name), name) for name in ("reads/s", "writes/s", "fsyncs/s"))
    events = whole_number(_value(body, "total number of events"), "sysbench's events")
    files, block = _FILES.search(head), _BLOCK.search(head)
    flags = re.search(r"^Extra file open flags: (.{1,200})$", head, re.M)
    threads = re.search(r"^Number of threads: ([0-9]{1,6})$", head, re.M)
    return FileTest(
        rates=(rates[0], rates[1], rates[2]),
        mib_per_s=(_value(body, "read, MiB/s"), _value(body, "written, MiB/s")),
        events=events,
        latency_ns=event_times_ns(body, events),
        total_s=real(_value(body, "total time"), "sysbench's total time"),
        misfits=_misfits(body, events, whole_number(threads[1], "threads") if threads else 1),
        block_bytes=size(block[1], block[2], "sysbench's block size").rounded if block else None,
        files=whole_number(files[1], "sysbench's files") if files else 0,
        file_bytes=size(files[2], files[3], "sysbench's file size").rounded if files else None,
        threads=whole_number(threads[1], "sysbench's threads") if threads else 1,
        direct="directio" in flags[1] if flags else None,
        engine="libaio" if "Using asynchronous I/O" in head else "mmap" if "mmaped I/O" in head else "",
        syncs_at_end="Calling fsync() at the end of test, Enabled" in head,
        syncs_each="Calling fsync() after each write operation" in head,
    )


def _value(body: str, name: str) -> str:
    match = re.search(rf"^\s*{re.escape(name)}: +({NUMBER})s?$", body, re.M)
    if match is None:
        raise InputError(f"sysbench's results have no '{name}': its output is not complete, or of another version")
    return match[1]


def event_times_ns(body: str, events: int) -> dict[str, float]:
    """Those of events; the mean from their sum, which has more digits than the printed mean, where the two agree."""
    printed = {name: re.search(rf"^\s*{name}: +({NUMBER})$", body, re.M) for name in ("min", "avg", "max")}
    statistics_ns = {name: real(match[1], f"sysbench's {name}") * 1e6 for name, match in printed.items() if match}
    mean_ns = statistics_ns.pop("avg", None)
    if events >= _FEWEST_EVENTS and (total_ms := re.search(rf"^\s*sum: +({NUMBER})$", body, re.M)):
        summed_ns = real(total_ms[1], "sysbench's sum of latencies") * 1e6 / events
        apart = mean_ns is not None and abs(summed_ns - mean_ns) > LATENCY_STEP_NS
        statistics_ns["mean"] = mean_ns if mean_ns is not None and apart else summed_ns
    if percentile := _PERCENTILE.search(body):
        statistics_ns[f"p{int(percentile[1])}"] = real(percentile[2], "sysbench's percentile") * 1e6
    return {name: value_ns for name, value_ns in statistics_ns.items() if value_ns > 0}


def _misfits(body: str, events: int, threads: int) -> list[Misfit]:
    """What of the general statistics contradicts the rest: each event has a time, and threads share the events out."""
    total_s, events_each, time_each_s = (
        real(match[1], "sysbench's statistics") if (match := pattern.search(body)) else None for pattern in _SUMS
    )
    ms = {name: real(match[1], name) for name in _TIMES if (match := re.search(_TIMES[name], body, re.M))}
    found, step = list[Misfit](), LATENCY_STEP_NS / 1e6
    if events_each is not None:
        found += equal("events of a thread", events_each, events / threads, 1e-4)
    if not events or len(ms) < len(_TIMES):
        return found
    found += between("mean", ms["avg"], ms["sum"] / events - step, ms["sum"] / events + step)
    found += between("min", ms["min"], 0.0, ms["avg"] + step)
    longest_ms = ms["sum"] - (events - 1) * max(ms["min"] - step, 0.0)
    found += between("max", ms["max"], ms["avg"] - step, longest_ms + step)
    if percentile := _PERCENTILE.search(body):
        value_ms, shares = real(percentile[2], "sysbench's percentile"), real(percentile[1], "percentile")
        loose = 1 + _BUCKET_SHARE
        beyond_ms = ms["sum"] / (events * (1 - shares / 100)) if shares < 100 else ms["max"]  # Markov's inequality
        most_ms = min(ms["max"], beyond_ms) * loose + step
        found += between("percentile", value_ms, ms["min"] / loose - step, most_ms)
        if value_ms > step:
            place = round(math.log(value_ms / _LEAST_MS) / _BUCKET_LOG)
            found += equal("percentile", value_ms, _LEAST_MS * math.exp(place * _BUCKET_LOG), step / 2)
    if time_each_s is not None:
        found += equal("time of a thread", time_each_s, ms["sum"] / 1e3 / threads, 1e-4 + step / 1e3)
        if total_s is not None:
            found += between("total time", total_s, time_each_s - 1e-4, math.inf)
    return found


@dataclass(frozen=True)
class _Counts:
    """Requests of each kind behind the rates, and how far they may be wrong."""

    reads: float
    writes: float
    syncs: float
    seconds: float
    error: float

    @property
    def exact(self) -> bool:
        """They come out whole: what was assumed of the synchronisations is right."""
        parts = (self.reads, self.writes, self.syncs)
        return self.error < _LARGEST_ERROR and all(abs(part - round(part)) <= self.error for part in parts)


def _counts(run: FileTest) -> _Counts | None:
    """None where nothing was done. Synchronisations at the end are those of each file, by one thread or by all."""
    reads, writes, syncs = run.rates
    if not run.events or not reads + writes:
        return None
    at_end = (run.files, run.files * run.threads, 0) if run.syncs_at_end and writes + syncs else (0,)
    if run.syncs_each:
        return _shared_out(run, run.events * sum(run.rates) / (reads + writes))
    candidates = [_shared_out(run, float(run.events + number)) for number in at_end]
    whole = [each for each in candidates if each.exact]
    if len({(round(each.reads), round(each.writes)) for each in whole}) == 1:
        return whole[0]
    unsure = _shared_out(run, float(run.events))
    most = max(at_end) / run.events * max(unsure.reads, unsure.writes)
    return _Counts(unsure.reads, unsure.writes, unsure.syncs, unsure.seconds, max(unsure.error, 1.0) + most)


def _shared_out(run: FileTest, number: float) -> _Counts:
    """This number of requests and synchronisations, in the proportion of their rates."""
    total = sum(run.rates)
    reads, writes, syncs = (rate / total * number for rate in run.rates)
    seconds = number / total
    if sum(rate > 0 for rate in run.rates) == 1:
        return _Counts(reads, writes, syncs, seconds, 0.1)  # of one kind all events are exact
    error = _HALF_STEP * seconds + 3 * _HALF_STEP / total * max(reads, writes, syncs)
    return _Counts(reads, writes, syncs, seconds, error)


def claims_of(run: FileTest) -> list[Claim]:
    """A read, a write or both; none where nothing was done."""
    counts = _counts(run)
    if counts is None:
        return []
    parts = (("read", counts.reads, run.mib_per_s[0]), ("write", counts.writes, run.mib_per_s[1]))
    return [_claim(kind, number, printed, run, counts) for kind, number, printed in parts if number]


def _claim(kind: str, number: float, printed: str, run: FileTest, counts: _Counts) -> Claim:
    block_bytes = run.block_bytes
    whole_blocks = bool(block_bytes and run.file_bytes is not None and run.file_bytes % block_bytes == 0)
    operations = round(number) if counts.exact else None
    step = step_of(printed) * _MIB
    writes = kind == "write"
    alone = not (counts.reads and counts.writes) and round(counts.syncs) <= run.files * run.threads
    syncs_between = run.syncs_each or (counts.syncs and not counts.exact)
    # The interval behind the rates ends after the total time: when all is synchronised, and the threads are gone.
    late_s = _LATE_S + 0.02 * counts.seconds if alone and kind == "read" else math.inf
    total = between(
        "total time", run.total_s, counts.seconds - late_s, counts.seconds * (1 + counts.error / run.events) + 1e-3
    )
    volume = run.rates[0 if kind == "read" else 1] * (block_bytes or 0)
    rate = equal("bandwidth", real(printed, "rate") * _MIB, volume, step + _HALF_STEP * (block_bytes or 0))
    return Claim(
        source=NAME,
        kind=kind,
        operations=operations,
        bytes=whole_number(round(number) * block_bytes, "sysbench's bytes") if whole_blocks and block_bytes else None,
        seconds=counts.seconds,
        rate_bytes_per_s=real(printed, "sysbench's rate") * _MIB,
        rate_unit_bytes=step if operations is not None else max(step, counts.error * (block_bytes or 1)),
        latency_ns=run.latency_ns if alone and not syncs_between and not run.engine else {},
        latency_step_ns=dict.fromkeys(run.latency_ns.keys() - {"mean"}, LATENCY_STEP_NS),
        operations_per_s=run.rates[0 if kind == "read" else 1],
        operations_per_s_step=2 * _HALF_STEP,
        syncs=round(counts.syncs) if writes and counts.exact and run.engine != "mmap" else None,
        writes_per_sync=1 if writes and run.syncs_each else None,
        engine=run.engine,
        direct=run.direct,
        paths=tuple(f"test_file.{place}" for place in range(run.files)) if run.files <= _MOST_FILES else (),
        file_bytes=run.file_bytes,
        record_bytes=block_bytes,
        includes=("fsync",) if writes and run.syncs_at_end else (),
        misfits=(*run.misfits, *total, *(rate if block_bytes else ())),
    )
