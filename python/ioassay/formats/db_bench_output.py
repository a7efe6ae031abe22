"""What RocksDB's db_bench claims: operations on keys, which are no I/O, one claim a benchmark line; and, of RocksDB's
statistics, what the database read and wrote for all of them together, which is I/O.

Rates in MB/s are bytes of keys and values in powers of 1024 (Stats::Report in db_bench_tool.cc); what the database
reads and writes for them is another matter, so those claims are context for a verdict, not its object. Latencies come
from the histogram after a line (--histogram), else the mean from the line. Lines of averages (`[AVG 2 runs]`) are left
out: they repeat. Output of LevelDB's db_bench, which has fewer columns, is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.errors import InputError
from ioassay.formats import Conventions, command_line
from ioassay.formats.number_parsing import lines_with, next_lines, real, step_of, whole_number
from ioassay.records.record import Claim

NAME = "db_bench"
STREAM = "stdout"
CONVENTIONS = Conventions(tests_are_work=True)

_NUMBER = r"([\d.]{1,25}|-?nan|-?inf)"
_LINE = re.compile(
    rf"(?:^|[\s:])(\w[\w-]{{0,60}}) *: +{_NUMBER} micros/op"
    rf"(?: +(\d{{1,19}}) ops/sec)?(?: +{_NUMBER} seconds)?(?: +(\d{{1,19}}) operations)?;?(?: +{_NUMBER} MB/s)?"
)
_PERCENTILE = re.compile(r"P([\d.]{1,8}): ([\d.]{1,25})")
_CLOCK_STEP_S = 1e-6
_TICKER = re.compile(r"^(rocksdb\.[\w.-]{1,80}) COUNT : (\d{1,19})$", re.M)
_READ = ("rocksdb.last.level.read.bytes", "rocksdb.non.last.level.read.bytes")
"""Of table files, by users and by compactions (monitoring/statistics.cc; 7.0 and newer)."""
_WRITTEN = ("rocksdb.wal.bytes", "rocksdb.flush.write.bytes", "rocksdb.compact.write.bytes")
READS, WRITES = "RocksDB's reads", "RocksDB's writes"


def matches(program: str) -> bool:
    """Whether this is db_bench, RocksDB's or LevelDB's."""
    return program in {"db_bench", "rocksdb_db_bench", "db_bench_sqlite3", "leveldb_db_bench"}


def looks_like(text: str) -> bool:
    """Whether it has a line of a benchmark, or RocksDB's and LevelDB's head of it."""
    return " micros/op" in text or re.search(r"^(RocksDB|LevelDB): +version", text, re.M) is not None


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims in their order; InputError when no benchmark ended."""
    folder = _folder(text, argv)
    claims = list(_claims(text, folder))
    if claims:
        return [*claims, *_of_database(tickers(text), folder, argv)]
    for _, line in lines_with(text, "unknown benchmark"):
        raise InputError(f"db_bench ran nothing: {line.strip()[:100]}; its --help lists the benchmarks")
    if not text.strip():
        raise InputError("db_bench's output is empty: it ended before its first benchmark did")
    ending = text.strip()[-120:].splitlines()[-1]
    raise InputError(f"db_bench's output has no line of results ('micros/op'); it ends with {ending!r}")


def warnings(text: str) -> list[str]:
    """What db_bench itself says against its numbers (assertions, no optimisation, compression that is missing)."""
    found = [line.strip() for _, line in lines_with(text, "WARNING: ")]
    return list(dict.fromkeys(line[line.index("WARNING: ") + len("WARNING: ") :] for line in found))


def tickers(text: str) -> dict[str, int]:
    """RocksDB's counters over the whole process; empty where it was run without --statistics."""
    return {name: whole_number(number, name) for name, number in _TICKER.findall(text)}


def _of_database(counted: Mapping[str, int], folder: str, argv: Sequence[str]) -> Iterator[Claim]:
    """What the database itself counted of its tables and its log; the rest of its files is in none of its numbers.

    Reads are counted in bytes alone: RocksDB joins some of them before it calls, and counts them one by one.
    """
    mapped = any(re.fullmatch(r"--?mmap_read(=(true|1|t|y|yes))?", word, re.I) for word in argv)
    paths = (folder,) if folder else ()
    common: dict[str, Any] = {"source": NAME, "paths": paths, "unreported": ("own-files",)}
    read_bytes = sum(counted.get(name, 0) for name in _READ)
    if read_bytes:
        yield Claim(kind="read", test=READS, bytes=read_bytes, engine="mmap" if mapped else "", **common)
    written_bytes = sum(counted.get(name, 0) for name in _WRITTEN)
    if written_bytes:
        synced = counted.get("rocksdb.wal.synced", 0)
        logged = counted.get("rocksdb.wal.bytes", 0) > 0
        doubts = ("log-not-synced",) if logged and not synced else ()
        yield Claim(kind="write", test=WRITES, bytes=written_bytes, syncs=synced or None, doubts=doubts, **common)


def _claims(text: str, folder: str) -> Iterator[Claim]:
    for end, line in lines_with(text, " micros/op"):
        match = _LINE.search(line)
        if match is None:
            continue
        name, micros, rate, seconds, operations, volume = match.groups()
        mean_ns = real(micros, f"{name} micros/op") * 1e3
        yield Claim(
            source=NAME,
            kind="keys",
            test=name,
            operations=whole_number(operations, f"{name} operations") if operations else None,
            seconds=_seconds(operations, rate) or (real(seconds, f"{name} seconds") if seconds else None),
            rate_bytes_per_s=real(volume, f"{name} MB/s") * 2**20 if volume else None,
            rate_unit_bytes=step_of(volume) * 2**20 if volume else 1.0,
            clock_step_s=_CLOCK_STEP_S,
            latency_ns={"mean": mean_ns, **_histogram(next_lines(text, end, 5))},
            paths=(folder,) if folder else (),
        )


def _seconds(operations: str | None, rate: str | None) -> float | None:
    """The interval behind the rate, which has more digits than the printed seconds (and older versions have none)."""
    if not operations or not rate or not int(rate):
        return None
    return whole_number(operations, "operations") / whole_number(rate, "ops/sec")


def _histogram(lines: Sequence[str]) -> dict[str, float]:
    """The percentiles in the lines after a benchmark's, up to the next benchmark; microseconds in print."""
    if not lines or not lines[0].startswith("Microseconds per"):
        return {}
    for line in lines:
        if line.startswith("Percentiles:"):
            return {f"p{real(share, 'P'):g}": real(value, f"P{share}") * 1e3 for share, value in _shares(line)}
    return {}


def _shares(line: str) -> list[tuple[str, str]]:
    return [pair for pair in _PERCENTILE.findall(line) if pair[0].count(".") <= 1 and pair[0].strip(".")]


def _folder(text: str, argv: Sequence[str]) -> str:
    """The database's folder: as db_bench printed it, else as it was asked for."""
    for _, line in lines_with(text, "DB path: ["):
        if match := re.search(r"DB path: \[(.{1,4000}?)\]", line):
            return match[1]
    asked = [word[len("--db=") :] for one in command_line.plain(argv) for word in one if word.startswith("--db=")]
    return asked[0] if asked else ""
