"""Reads what db_bench measured: a line of results a benchmark, its histogram, and RocksDB's own statistics.

A benchmark that runs several times (`[X3]`) has a line each: its rate is operations over seconds of all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ioassay.formats import db_bench_output as claims
from ioassay.formats.number_parsing import real, whole_number
from ioassay.records.record import Buckets, Claim

_FOUND = tuple(
    re.compile(rf"^(?P<name>\w+) *:.*micros/op.*{words}", re.M)
    for words in (
        r"\((?P<found>\d+) of (?P<asked>\d+) found",
        r"reads:(?P<asked>\d+) .*found:(?P<found>\d+)\)",
        r"reads (?P<found>\d+) in (?P<asked>\d+) found",
    )
)
"""Of loads that read; of those that write as well; of mixgraph."""
_HEAD = re.compile(r"^(?P<name>\w[\w-]*) *: .* micros/op", re.M)
_ROW = re.compile(r"^[(\[] *(?P<low>[\d.]+), +(?P<high>[\d.]+) +\] +(?P<count>\d+) ", re.M)
_SECTION = "Microseconds per "
_SPREAD = re.compile(r"^Count: \d+ +Average: (?P<mean>[\d.]+) +StdDev: (?P<stddev>[\d.]+)", re.M)
_ENDS = re.compile(r"^Min: (?P<min>[\d.]+) +Median: [\d.]+ +Max: (?P<max>[\d.]+)", re.M)
_TICKERS = {
    "stall_time": ("rocksdb.stall.micros", 1e-6),
    "user_bytes": ("rocksdb.bytes.written", 1.0),
    "wal_bytes": ("rocksdb.wal.bytes", 1.0),
    "flush_bytes": ("rocksdb.flush.write.bytes", 1.0),
    "compaction_read_bytes": ("rocksdb.compact.read.bytes", 1.0),
    "compaction_write_bytes": ("rocksdb.compact.write.bytes", 1.0),
}


@dataclass(frozen=True)
class Measured:
    """What the benchmarks of one trial did."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    buckets: Sequence[Buckets] = ()
    claims: Sequence[Claim] = ()


def read(text: str, wanted: Sequence[str], argv: Sequence[str] = ()) -> Measured:
    """Metrics of the benchmarks that are `wanted`, claims of all; InputError when there is no line of results."""
    told = claims.read(text, argv)
    metrics: dict[str, float] = {}
    buckets: list[Buckets] = []
    for name in wanted:
        own = [claim for claim in told if claim.test == name]
        if own:
            metrics |= _rates(name, own)
            metrics |= _found(name, text)
            blocks = _histograms(name, text)
            metrics |= _spread(name, own, blocks)
            buckets += _buckets(name, blocks)
    return Measured({**metrics, **_statistics(text)}, buckets, told)


def _rates(name: str, own: Sequence[Claim]) -> dict[str, float]:
    timed = [claim for claim in own if claim.operations and claim.seconds]
    if not timed:
        means = [claim.latency_ns["mean"] for claim in own if claim.latency_ns.get("mean")]
        return {f"{name}.ops_rate": 1e9 * len(means) / sum(means)} if means else {}
    seconds = sum(claim.seconds or 0.0 for claim in timed)
    rates = {
        f"{name}.ops_rate": sum(claim.operations or 0 for claim in timed) / seconds,
        f"{name}.ops": float(sum(claim.operations or 0 for claim in timed)),
    }
    moved = [claim for claim in timed if claim.rate_bytes_per_s is not None]
    if moved:
        volume = sum((claim.rate_bytes_per_s or 0.0) * (claim.seconds or 0.0) for claim in moved)
        rates[f"{name}.bw"] = volume / sum(claim.seconds or 0.0 for claim in moved)
    return rates


def _found(name: str, text: str) -> dict[str, float]:
    """The share of the keys asked for that the database had."""
    found = (hit for pattern in _FOUND for hit in pattern.finditer(text) if hit["name"] == name)
    hits = [(whole_number(hit["found"], f"{name} found"), whole_number(hit["asked"], f"{name} asked")) for hit in found]
    asked = sum(number for _, number in hits)
    return {f"{name}.found": sum(number for number, _ in hits) / asked} if asked else {}


def _histograms(name: str, text: str) -> list[str]:
    """What stands between each line of the benchmark and the next benchmark's."""
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    blocks = (text[head.end() : end] for head, end in zip(heads, ends, strict=False) if head["name"] == name)
    return [block for block in blocks if _SECTION in block]


def _spread(name: str, own: Sequence[Claim], blocks: Sequence[str]) -> dict[str, float]:
    """Of one run db_bench's own percentiles. Several runs, and reads and writes that it tells apart, are merged by
    `_buckets`, and only their mean is told."""
    means = [claim.latency_ns["mean"] for claim in own if "mean" in claim.latency_ns]
    told = {f"{name}.op_time.mean": sum(means) / len(means)} if means else {}
    if len(own) > 1 or len(blocks) != 1 or blocks[0].count(_SECTION) > 1:
        return told
    told |= {f"{name}.op_time.{key}": value for key, value in own[0].latency_ns.items() if key.startswith("p")}
    for pattern in (_SPREAD, _ENDS):
        if found := pattern.search(blocks[0]):
            told |= {
                f"{name}.op_time.{key}": real(value, f"{name} {key}") * 1e3 for key, value in found.groupdict().items()
            }
    return told


def _buckets(name: str, blocks: Sequence[str]) -> list[Buckets]:
    """One distribution a benchmark, at the upper ends of db_bench's buckets, which are about a half wide."""
    counts: dict[int, int] = {}
    for block in blocks:
        for row in _ROW.finditer(block):
            value_ns = whole_number(round(real(row["high"], f"{name} bucket") * 1e3), f"{name} bucket in ns")
            counts[value_ns] = counts.get(value_ns, 0) + whole_number(row["count"], f"{name} count")
    whole_number(sum(counts.values()), f"{name} count of all buckets")
    values = sorted(counts)
    return [Buckets(name, "op", values, [counts[value] for value in values])] if values else []


def _statistics(text: str) -> dict[str, float]:
    """RocksDB's counters over the whole process, what prepared the database included."""
    tickers = claims.tickers(text)
    found = {f"rocksdb.{key}": tickers[name] * factor for key, (name, factor) in _TICKERS.items() if name in tickers}
    user = found.get("rocksdb.user_bytes", 0.0)
    if user > 0:
        parts = ("wal_bytes", "flush_bytes", "compaction_write_bytes")
        found["rocksdb.write_amplification"] = sum(found.get(f"rocksdb.{part}", 0.0) for part in parts) / user
    hits, misses = tickers.get("rocksdb.block.cache.hit", 0), tickers.get("rocksdb.block.cache.miss", 0)
    if hits + misses:
        found["rocksdb.cache_hit_ratio"] = hits / (hits + misses)
    return {name: value for name, value in found.items() if math.isfinite(value)}
