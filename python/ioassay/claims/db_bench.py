"""What RocksDB's db_bench claims: operations on keys, which are not I/O, one claim a benchmark line.

Rates in MB/s are bytes of keys and values in powers of 1024 (Stats::Report in db_bench_tool.cc); what the database
reads and writes for them is another matter, so these claims are context for a verdict, not its object. Latencies come
from the histogram after a line (--histogram), else the mean from the line. Lines of averages (`[AVG 2 runs]`) are left
out: they repeat. Output of LevelDB's db_bench, which has fewer columns, is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ioassay.claims import command
from ioassay.claims.numbers import lines_with, next_lines, real, step_of, whole
from ioassay.errors import InputError
from ioassay.record import Claim

NAME = "db_bench"
STREAM = "stdout"

_NUMBER = r"([\d.]{1,25}|-?nan|-?inf)"
_LINE = re.compile(
    rf"(?:^|[\s:])(\w[\w-]{{0,60}}) *: +{_NUMBER} micros/op"
    rf"(?: +(\d{{1,19}}) ops/sec)?(?: +{_NUMBER} seconds)?(?: +(\d{{1,19}}) operations)?;?(?: +{_NUMBER} MB/s)?"
)
_PERCENTILE = re.compile(r"P([\d.]{1,8}): ([\d.]{1,25})")
_CLOCK_STEP_S = 1e-6


def matches(program: str) -> bool:
    """Whether this is db_bench, RocksDB's or LevelDB's."""
    return program in {"db_bench", "rocksdb_db_bench", "db_bench_sqlite3", "leveldb_db_bench"}


def looks_like(text: str) -> bool:
    """Whether it has a line of a benchmark, or RocksDB's and LevelDB's head of it."""
    return " micros/op" in text or re.search(r"^(RocksDB|LevelDB): +version", text, re.M) is not None


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims in their order; InputError when no benchmark ended."""
    claims = list(_claims(text, _folder(text, argv)))
    if claims:
        return claims
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
            operations=whole(operations, f"{name} operations") if operations else None,
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
    return whole(operations, "operations") / whole(rate, "ops/sec")


def _histogram(lines: Sequence[str]) -> dict[str, float]:
    """The percentiles in the lines after a benchmark's, up to the next benchmark; microseconds in print."""
    if not lines or not lines[0].startswith("Microseconds per"):
        return {}
    for line in lines:
        if line.startswith("Percentiles:"):
            return {f"p{float(share):g}": real(value, f"P{share}") * 1e3 for share, value in _shares(line)}
    return {}


def _shares(line: str) -> list[tuple[str, str]]:
    return [pair for pair in _PERCENTILE.findall(line) if pair[0].count(".") <= 1 and pair[0].strip(".")]


def _folder(text: str, argv: Sequence[str]) -> str:
    """The database's folder: as db_bench printed it, else as it was asked for."""
    for _, line in lines_with(text, "DB path: ["):
        if match := re.search(r"DB path: \[(.{1,4000}?)\]", line):
            return match[1]
    asked = [word[len("--db=") :] for one in command.plain(argv) for word in one if word.startswith("--db=")]
    return asked[0] if asked else ""
