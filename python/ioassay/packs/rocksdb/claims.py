"""db_bench's output: a line of results a benchmark, with its histogram, and RocksDB's statistics.

It claims operations on keys, which are no I/O, one claim a benchmark line; and, of RocksDB's statistics, what the
database read and wrote for all of them together, which is I/O. Rates in MB/s are bytes of keys and values in powers of
1024 (Stats::Report in db_bench_tool.cc); what the database reads and writes for them is another matter, so those claims
are context for a verdict, not its object. Latencies come from the histogram after a line (--histogram), else the mean
from the line. Lines of averages (`[AVG 2 runs]`) are left out: they repeat. Output of LevelDB's db_bench, which has
fewer columns, is read as well.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions
from ioassay.formats.number_parsing import (
    Spread,
    between,
    equal,
    lines_with,
    mark,
    of_spread,
    parts_from,
    quotient,
    real,
    step_of,
    whole_number,
)
from ioassay.formats.text_rules import Rules, Tool
from ioassay.metrics import percentile_name
from ioassay.records.record import Claim, Misfit, Warning_

_NUMBER = r"([\d.]{1,25}|-?nan|-?inf)"
_LINE = re.compile(
    rf"(?:^|[\s:])(\w[\w-]{{0,60}}) *: +{_NUMBER} micros/op"
    rf"(?: +(\d{{1,19}}) ops/sec)?(?: +{_NUMBER} seconds)?(?: +(\d{{1,19}}) operations)?;?(?: +{_NUMBER} MB/s)?"
)
_OPERATIONS = re.compile(r"\((\d{1,19}) ops\)")
"""Of LevelDB, where a benchmark does fewer than all."""
_KEYS_FOUND = tuple(
    re.compile(words)
    for words in (
        r"\((?P<found>\d{1,19}) of (?P<asked>\d{1,19}) found",
        r"reads:(?P<asked>\d{1,19}) .*found:(?P<found>\d{1,19})\)",
        r"reads (?P<found>\d{1,19}) in (?P<asked>\d{1,19}) found",
    )
)
"""Of loads that read; of those that write as well; of mixgraph."""
_SECTION = re.compile(r"^Microseconds per .*$", re.M)
_ROW = re.compile(r"^[(\[] *(?P<low>[\d.]+), +(?P<high>[\d.]+) +[\])] +(?P<count>\d+) ", re.M)
_COUNT = re.compile(r"^Count: (\d+) ", re.M)
_SPREAD = re.compile(r"^Count: \d+ +Average: (?P<mean>[\d.]+) +StdDev: (?P<stddev>[\d.]+)", re.M)
_ENDS = re.compile(r"^Min: (?P<min>[\d.]+) +Median: (?P<median>[\d.]+) +Max: (?P<max>[\d.]+)", re.M)
_PERCENTILES = re.compile(r"^Percentiles:(.*)$", re.M)
_PERCENTILE = re.compile(r"P([\d.]{1,8}): ([\d.]{1,25})")
_PATH = re.compile(r"DB path: \[(.{1,4000}?)\]")
_CLOCK_STEP_S = 1e-6
_PRINTED_STEP_S = 1e-3
_OUTSIDE_SHARE, _OUTSIDE_S = 0.2, 1.0
"""By so much the time of threads may be longer than that of their operations, and shorter than that of the line, which
ends when the last thread was waited for: both grow by whatever keeps a thread from the processor."""
_TICKER = re.compile(r"^(rocksdb\.[\w.-]{1,80}) COUNT : (\d{1,19})$", re.M)
_FIELDS = f" : {_NUMBER} ".join(("P50", "P95", "P99", "P100", "COUNT", "SUM"))
_SYNCS = re.compile(rf"^rocksdb\.wal\.file\.sync\.micros {_FIELDS} : {_NUMBER}$", re.M)
_HEAD = re.compile(r"^(RocksDB|LevelDB): +version", re.M)
_KEYS_LINE = re.compile(r"^Keys: +\d+ bytes", re.M)
_LEVELS = Rules(
    "db_bench",
    r"^Keys: +(?P<key_size>[0-9]{1,9}) bytes each",
    r"^Values: +(?P<value_size>[0-9]{1,9}) bytes each",
    r"^Entries: +(?P<num>[0-9]{1,19})$",
    r"^Compression: (?P<compression_type>\w{1,40})$",
    r"^RawSize: .*\n(?:Prefix: .*\n|Keys per prefix: .*\n)*(?:FileSize: .*\n)?",
    r"^Perf Level: .*",
    r"^(?P<database>(?:RocksDB|LevelDB): +version [\w.]{1,20})$",
)
_LONGEST_NOTE = 300
_READ = ("rocksdb.last.level.read.bytes", "rocksdb.non.last.level.read.bytes")
"""Of table files, by users and by compactions (monitoring/statistics.cc; 7.0 and newer)."""
_WRITTEN = ("rocksdb.wal.bytes", "rocksdb.flush.write.bytes", "rocksdb.compact.write.bytes")
READS, WRITES = "RocksDB's reads", "RocksDB's writes"


@dataclass(frozen=True)
class Histogram:
    """Times of the operations of one kind, reads or writes, in one run of a benchmark."""

    percentiles_ns: Mapping[float, float]
    """db_bench's own, by percentage."""
    spread_ns: Mapping[str, float]
    """mean, stddev, min and max; of the operations themselves, without what lies between them."""
    buckets: Mapping[int, int]
    """Upper end in ns -> operations; a bucket is about half as wide."""
    misfits: Sequence[Misfit] = ()
    """What its buckets contradict."""


@dataclass(frozen=True)
class Benchmark:
    """One line of results: one run of one benchmark."""

    name: str
    mean_ns: float
    """Of one thread from operation to operation."""
    operations: int | None = None
    seconds: float | None = None
    operations_per_s: float | None = None
    """In print, a whole number."""
    rate_bytes_per_s: float | None = None
    """Of keys and values."""
    rate_step_bytes_per_s: float = 1.0
    keys_asked: int = 0
    keys_found: int = 0
    histograms: Sequence[Histogram] = ()
    misfits: Sequence[Misfit] = ()
    """What of the line contradicts the rest of it."""


@dataclass(frozen=True)
class Output:
    """What one process printed. `folder` is the database's; '' where it is not told."""

    benchmarks: Sequence[Benchmark]
    folder: str = ""
    compression: str = ""
    warnings: Sequence[str] = ()
    """What it says itself against its numbers (assertions, no optimisation, compression that is missing)."""
    tickers: Mapping[str, int] = field(default_factory=dict)
    """RocksDB's counters over the whole process; empty where it was run without --statistics."""
    syncs_us: Sequence[Sequence[float]] = ()
    """Of the log, by each process that made any: median, 95th and 99th percentile, longest; number, sum."""


def parse(text: str) -> Output:
    """The benchmarks in their order; InputError when none ended."""
    if not (benchmarks := list(_benchmarks(text))):
        raise InputError(_nothing(text))
    compression = re.search(r"^Compression: (\w+)$", text, re.M)
    notes = (line[line.index("WARNING: ") + len("WARNING: ") :].strip() for _, line in lines_with(text, "WARNING: "))
    return Output(
        benchmarks,
        next((match[1] for _, line in lines_with(text, "DB path: [") if (match := _PATH.search(line))), ""),
        compression[1] if compression else "",
        list(dict.fromkeys(notes)),
        {name: whole_number(number, name) for name, number in _TICKER.findall(text)},
        [one for said in _SYNCS.findall(text) if (one := [real(each, "sync.micros") for each in said])[4]],
    )


def merged(outputs: Sequence[Output]) -> Output:
    """Processes that worked on one database one after the other, as if they had been one."""
    tickers = Counter[str]()
    for output in outputs:
        tickers.update(output.tickers)
    return Output(
        [benchmark for output in outputs for benchmark in output.benchmarks],
        next((output.folder for output in outputs if output.folder), ""),
        next((output.compression for output in outputs if output.compression), ""),
        list(dict.fromkeys(warning for output in outputs for warning in output.warnings)),
        tickers,
        [each for output in outputs for each in output.syncs_us],
    )


def _nothing(text: str) -> str:
    for _, line in lines_with(text, "unknown benchmark"):
        return f"db_bench ran nothing: {line.strip()[:100]}; its --help lists the benchmarks"
    if not text.strip():
        return "db_bench's output is empty: it ended before its first benchmark did"
    ending = text.strip()[-120:].splitlines()[-1]
    return f"db_bench's output has no line of results ('micros/op'); it ends with {ending!r}"


def _benchmarks(text: str) -> Iterator[Benchmark]:
    """Each line of results with the histograms between it and the next."""
    found = [(end, line, _LINE.search(line)) for end, line in lines_with(text, " micros/op")]
    lines = [(end, line, match) for end, line, match in found if match and not line.rstrip().endswith(" failure)")]
    nexts = [*(end - len(line) for end, line, _ in lines[1:]), len(text)]
    for (end, line, match), until in zip(lines, nexts, strict=False):
        mark(line)
        name, micros, rate, seconds, operations, volume = match.groups()
        printed_s = real(seconds, f"{name} seconds") if seconds else None
        operations = operations or next(iter(_OPERATIONS.findall(line)), "")
        number = whole_number(operations, f"{name} operations") if operations else None
        mean_us, per_s = real(micros, f"{name} micros/op"), whole_number(rate, "ops/sec") if rate else 0
        # The rate, a whole number, may have more digits than the seconds in print. Older versions print no seconds:
        # there a rate of three digits or more counts.
        is_finer = per_s >= (100 if printed_s is None else max(printed_s / _PRINTED_STEP_S, 1))
        misfits: list[Misfit] = []
        if rate and printed_s is not None and number:
            # The means of the threads, whose times add up to the whole or more.
            misfits += quotient(f"{name} ops/sec", float(number), printed_s, float(rate), 0.0, step_of(seconds), 1.0)
            least_s = (printed_s - step_of(seconds)) * (1 - _OUTSIDE_SHARE) - _OUTSIDE_S
            misfits += between(f"{name} micros/op", mean_us, least_s / number * 1e6 - step_of(micros), math.inf)
        keys = next(filter(None, (pattern.search(line) for pattern in _KEYS_FOUND)), None)
        yield Benchmark(
            name=name,
            mean_ns=mean_us * 1e3,
            operations=number,
            seconds=number / per_s if number is not None and per_s and is_finer else printed_s,
            operations_per_s=float(per_s) if rate else None,
            rate_bytes_per_s=real(volume, f"{name} MB/s") * 2**20 if volume else None,
            rate_step_bytes_per_s=step_of(volume) * 2**20 if volume else 1.0,
            keys_asked=whole_number(keys["asked"], f"{name} asked") if keys else 0,
            keys_found=whole_number(keys["found"], f"{name} found") if keys else 0,
            histograms=[_histogram(name, section) for section in _SECTION.split(text[end:until])[1:]],
            misfits=misfits,
        )


def _histogram(name: str, section: str) -> Histogram:
    """Of the text below its title; microseconds in print."""
    spread = {
        key: real(value, f"{name} {key}") * 1e3
        for pattern in (_SPREAD, _ENDS)
        if (match := pattern.search(section))
        for key, value in match.groupdict().items()
    }
    buckets: dict[int, int] = {}
    rows: list[_Row] = []
    for one in (_SPREAD, _ENDS, _PERCENTILES, _ROW):
        for printed_line in one.finditer(section):
            mark(section, *printed_line.span())
    for row in _ROW.finditer(section):
        high_ns = whole_number(round(real(row["high"], f"{name} bucket") * 1e3), f"{name} bucket in ns")
        number = whole_number(row["count"], f"{name} count")
        buckets[high_ns] = buckets.get(high_ns, 0) + number
        rows.append((real(row["low"], f"{name} bucket") * 1e3, float(high_ns), number))
    printed = _PERCENTILES.search(section)
    pairs = _PERCENTILE.findall(printed[1]) if printed else []
    percentiles_ns = {
        real(share, "P"): real(value, f"P{share}") * 1e3
        for share, value in pairs
        if share.count(".") <= 1 and share.strip(".")
    }
    median_ns, counted = spread.pop("median", None), _COUNT.search(section)
    if not percentiles_ns and median_ns is not None:  # LevelDB's
        percentiles_ns = {50.0: median_ns}
    shares = percentiles_ns if median_ns is None else {**percentiles_ns, 50: median_ns}
    both = [] if median_ns is None or 50.0 not in percentiles_ns else equal(
        f"{name} P50", percentiles_ns[50.0], median_ns, 10.0)  # fmt: skip
    number = whole_number(counted[1], f"{name} count") if counted else 0
    misfits = [*both, *_of_buckets(name, number, rows, spread, shares)] if counted else []
    return Histogram(percentiles_ns, spread, buckets, misfits)


_Row = tuple[float, float, int]
"""A bucket: its ends in ns, and how many operations are in it."""


def _of_buckets(
    name: str, count: int, rows: Sequence[_Row], spread: Mapping[str, float], percentiles_ns: Mapping[float, float]
) -> list[Misfit]:
    """Statistics that the buckets do not have; percentiles are interpolated in them (monitoring/histogram.cc)."""
    if not rows or not {"min", "max", "mean", "stddev"} <= spread.keys():
        return []
    least, most, mean = spread["min"], spread["max"], spread["mean"]
    found = equal(f"{name} count", count, sum(number for _, _, number in rows), 0.0)
    found += [*between(f"{name} min", least, *rows[0][:2]), *between(f"{name} max", most, *rows[-1][:2])]
    found += between(f"{name} average", mean, *(sum(row[2] * row[end] for row in rows) / count for end in (0, 1)))
    found += of_spread(name, Spread(count, mean, spread["stddev"], least, most, step=1e3))
    for percent, value_ns in percentiles_ns.items():
        below, wanted = 0, count * (percent / 100)
        for low_ns, high_ns, number in rows:
            if below + number >= wanted:
                inside_ns = low_ns + (high_ns - low_ns) * (wanted - below) / number
                found += equal(f"{name} P{percent:g}", value_ns, min(max(inside_ns, least), most), 10.0)
                break
            below += number
    return found


def claims(output: Output, words: Sequence[str] = ()) -> list[Claim]:
    """The claims of one process in their order; `words` name its database where the output does not."""
    named = (word.removeprefix("--db=") for word in words if word.startswith("--db="))
    paths = tuple(filter(None, [output.folder or next(named, "")]))
    return [*(_claim(each, paths) for each in output.benchmarks), *_of_database(output.tickers, paths, words)]


def _claim(benchmark: Benchmark, paths: Sequence[str]) -> Claim:
    percentiles_ns = benchmark.histograms[0].percentiles_ns if benchmark.histograms else {}
    named = {percentile_name(percent): value_ns for percent, value_ns in percentiles_ns.items()}
    if len(benchmark.histograms) == 1:
        named |= {name: value for name, value in benchmark.histograms[0].spread_ns.items() if name != "mean"}
    # Times of idle threads are in the mean (Stats::Merge): with fewer operations than threads it is that of none.
    is_mean = not benchmark.seconds or benchmark.mean_ns <= benchmark.seconds * 1e9
    # The times of the histograms, a batch of operations each, may add up to more than the mean of the line: the first
    # time of a thread begins when it was created, long before the line's where there are many (Stats::Start).
    misfits = [*benchmark.misfits]
    timed = [(one, sum(one.buckets.values())) for one in benchmark.histograms if "mean" in one.spread_ns]
    operations = benchmark.operations or sum(count for _, count in timed)
    if timed and operations:
        timed_ns = sum(count * one.spread_ns["mean"] for one, count in timed)
        most_ns = (timed_ns * (1 + _OUTSIDE_SHARE) + _OUTSIDE_S * 1e9) / operations
        misfits += between("micros/op", benchmark.mean_ns, 0.0, most_ns)
    return Claim(
        source="db_bench",
        kind="keys",
        test=benchmark.name,
        operations=benchmark.operations,
        seconds=benchmark.seconds,
        operations_per_s=benchmark.operations_per_s,
        operations_per_s_step=1.0,
        rate_bytes_per_s=benchmark.rate_bytes_per_s,
        rate_unit_bytes=benchmark.rate_step_bytes_per_s,
        clock_step_s=_CLOCK_STEP_S,
        latency_ns={"mean": benchmark.mean_ns, **named} if is_mean else named,
        paths=paths,
        misfits=(*misfits, *(each for one in benchmark.histograms for each in one.misfits)),
    )


def _of_database(counted: Mapping[str, int], paths: Sequence[str], argv: Sequence[str]) -> Iterator[Claim]:
    """What the database itself counted of its tables and its log; the rest of its files is in none of its numbers.

    Reads are counted in bytes alone: RocksDB joins some of them before it calls, and counts them one by one.
    """
    mapped = any(re.fullmatch(r"--?mmap_read(=(true|1|t|y|yes))?", word, re.I) for word in argv)
    common: dict[str, Any] = {"source": "db_bench", "paths": paths, "unreported": ("own-files",)}
    if read_bytes := sum(counted.get(name, 0) for name in _READ):
        yield Claim(kind="read", test=READS, bytes=read_bytes, engine="mmap" if mapped else "", **common)
    if written_bytes := sum(counted.get(name, 0) for name in _WRITTEN):
        synced = counted.get("rocksdb.wal.synced", 0)
        doubts = ("log-not-synced",) if counted.get("rocksdb.wal.bytes", 0) and not synced else ()
        yield Claim(kind="write", test=WRITES, bytes=written_bytes, syncs=synced or None, doubts=doubts, **common)


def _split(text: str) -> list[str]:
    """A part for each process that printed results."""
    starts = [match.start() for match in _KEYS_LINE.finditer(text)]
    return [part for part in parts_from(text, starts) or [text] if " micros/op" in part]


def _remarks(text: str) -> list[Warning_]:
    return [Warning_("db_bench-note", note[:_LONGEST_NOTE]) for note in parse(text).warnings]


CLAIMS = Tool(
    "db_bench",
    sign=lambda text: " micros/op" in text or _HEAD.search(text),
    claims=lambda text, words: claims(parse(text), words),
    missing="db_bench printed no results",
    split=_split,
    CONVENTIONS=Conventions(tests_are_work=True),
    LEVELS=_LEVELS,
    remarks=_remarks,
)
