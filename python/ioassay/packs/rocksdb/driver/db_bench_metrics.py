"""Metrics and distributions of db_bench's benchmarks, and what RocksDB counted for all of them.

A benchmark that runs several times (`[X3]`) has a line each: its rate is operations over seconds of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ioassay.formats.number_parsing import whole_number
from ioassay.metrics import percentile_name
from ioassay.packs.rocksdb.claims import Benchmark, Output
from ioassay.records.record import Buckets

_TICKERS = {
    "stall_time": ("rocksdb.stall.micros", 1e-6),
    "user_bytes": ("rocksdb.bytes.written", 1.0),
    "wal_bytes": ("rocksdb.wal.bytes", 1.0),
    "flush_bytes": ("rocksdb.flush.write.bytes", 1.0),
    "compaction_read_bytes": ("rocksdb.compact.read.bytes", 1.0),
    "compaction_write_bytes": ("rocksdb.compact.write.bytes", 1.0),
}


def metrics(output: Output, wanted: Sequence[str]) -> dict[str, float]:
    """Metrics of the benchmarks that are `wanted`, and of the whole process."""
    found: dict[str, float] = {}
    for name in wanted:
        runs = [benchmark for benchmark in output.benchmarks if benchmark.name == name]
        if runs:
            own = {**_rates(runs), **_keys_found(runs), **_operation_times(runs)}
            found |= {f"{name}.{key}": value for key, value in own.items()}
    return {**found, **statistics(output.tickers)}


def _rates(runs: Sequence[Benchmark]) -> dict[str, float]:
    timed = [(run, run.operations, run.seconds) for run in runs if run.operations and run.seconds]
    if not timed:
        means_ns = [run.mean_ns for run in runs if run.mean_ns]
        return {"ops_rate": 1e9 * len(means_ns) / sum(means_ns)} if means_ns else {}
    operations = sum(operations for _, operations, _ in timed)
    rates = {"ops_rate": operations / sum(seconds for _, _, seconds in timed), "ops": float(operations)}
    moved = [(run.rate_bytes_per_s, seconds) for run, _, seconds in timed if run.rate_bytes_per_s is not None]
    if moved:
        rates["bw"] = sum(rate * seconds for rate, seconds in moved) / sum(seconds for _, seconds in moved)
    return rates


def _keys_found(runs: Sequence[Benchmark]) -> dict[str, float]:
    """The share of the keys asked for that the database had."""
    asked = sum(run.keys_asked for run in runs)
    return {"found": sum(run.keys_found for run in runs) / asked} if asked else {}


def _operation_times(runs: Sequence[Benchmark]) -> dict[str, float]:
    """Of one run db_bench's own percentiles. Several runs, and reads and writes that it tells apart, are merged by
    `buckets`, and only their mean is told."""
    times_ns = {"mean": sum(run.mean_ns for run in runs) / len(runs)}
    if len(runs) == 1 and len(runs[0].histograms) == 1:
        histogram = runs[0].histograms[0]
        times_ns |= {percentile_name(percent): value for percent, value in histogram.percentiles_ns.items()}
        times_ns |= histogram.spread_ns
    return {f"op_time.{key}": value for key, value in times_ns.items()}


def buckets(output: Output, wanted: Sequence[str]) -> list[Buckets]:
    """One distribution a benchmark, at the upper ends of db_bench's buckets."""
    found = []
    for name in wanted:
        counts: dict[int, int] = {}
        for benchmark in output.benchmarks:
            for histogram in benchmark.histograms if benchmark.name == name else ():
                for value_ns, count in histogram.buckets.items():
                    counts[value_ns] = counts.get(value_ns, 0) + count
        whole_number(sum(counts.values()), f"{name} count of all buckets")
        if counts:
            values_ns = sorted(counts)
            found.append(Buckets(name, "op", values_ns, [counts[value_ns] for value_ns in values_ns]))
    return found


def statistics(tickers: Mapping[str, int]) -> dict[str, float]:
    """RocksDB's counters over the whole process, or over several, what prepared the database included."""
    found = {f"rocksdb.{key}": tickers[name] * factor for key, (name, factor) in _TICKERS.items() if name in tickers}
    user = found.get("rocksdb.user_bytes", 0.0)
    if user > 0:
        parts = ("wal_bytes", "flush_bytes", "compaction_write_bytes")
        found["rocksdb.write_amplification"] = sum(found.get(f"rocksdb.{part}", 0.0) for part in parts) / user
    hits, misses = tickers.get("rocksdb.block.cache.hit", 0), tickers.get("rocksdb.block.cache.miss", 0)
    if hits + misses:
        found["rocksdb.cache_hit_ratio"] = hits / (hits + misses)
    return {name: value for name, value in found.items() if math.isfinite(value)}
