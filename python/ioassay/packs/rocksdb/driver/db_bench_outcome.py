"""Was this a measurement? Its metrics, and what db_bench itself and the kind of its load say against its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ioassay.drivers.programs import ended_badly
from ioassay.formats.number_parsing import whole_number
from ioassay.metrics import percentile_name
from ioassay.packs.rocksdb.claims import Benchmark, Output
from ioassay.packs.rocksdb.driver.parameters import Settings, plain
from ioassay.records.record import FAILED, OK, Buckets, Warning_
from ioassay.roles import Outcome

_LONGEST_QUOTE = 300
_CHANCE = 0.02
"""How far a share of found keys may be from what is expected of random draws, where there are many."""
_STANDARD_ERRORS = 4.0
"""The same where there are few: one of 16,000 trials is further away by chance (binomial distribution)."""
_CHATTER = ("RocksDB:", "Date:", "CPU:", "CPUCache:", "...", "DB path:", "Set seed", "Initializing", "Integrated")
_DEBUG_BUILD = ("Assertions are enabled", "Optimization is disabled")
_REMEDIES = {
    "Assertions are enabled": "setup/rocksdb.sh of ioassay's source builds a db_bench without them, and "
    "IOASSAY_DB_BENCH names another one",
    "Optimization is disabled": "a build with CMAKE_BUILD_TYPE=Release is optimised",
    "compression is not enabled": "a RocksDB that is linked with that library compresses; or compression_type = 'none'",
}


def judge(wanted: Settings, measured: Mapping[str, float], outcome: Outcome, said: str) -> tuple[str, str]:
    """The status of a trial and the reason, '' where it is ok; `said` is its standard error."""
    if reason := ended_badly(outcome, "db_bench", "raise run.timeout, or lower params.num", lambda: _quoted(said)):
        return FAILED, reason
    if outcome.exit_code:
        return FAILED, f"db_bench failed (exit status {outcome.exit_code}){_quoted(said)}"
    missing = [name for name in wanted.measured if f"{name}.ops_rate" not in measured]
    if missing:
        return FAILED, f"db_bench printed no results of {', '.join(missing)}{_quoted(said)}"
    return OK, ""


def suspicions(wanted: Settings, measured: Mapping[str, float], output: Output) -> list[Warning_]:
    """db_bench's own warnings, and counts of found keys that are easily misread."""
    found = []
    for text in output.warnings:
        code = "debug-build" if any(words in text for words in _DEBUG_BUILD) else "db_bench-note"
        remedy = next((remedy for words, remedy in _REMEDIES.items() if words in text), "")
        found.append(Warning_(code, text[:_LONGEST_QUOTE], remedy))
    # What it says in its head that it does, where that is not what was asked for.
    asked = wanted.flags.get("compression_type", "none")
    if asked.lower() != "none" and output.compression == "NoCompression":
        text = f"compression_type is '{asked}', and db_bench says that it did not compress (Compression: NoCompression)"
        found.append(Warning_("not-compressed", text, _REMEDIES["compression is not enabled"]))
    return [*found, *_found_counts(wanted, measured)]


def _found_counts(wanted: Settings, measured: Mapping[str, float]) -> Iterator[Warning_]:
    """Why reads did not find all keys: random writes draw with replacement."""
    threads = wanted.number("threads")
    drawn = 1 - math.exp(-threads)  # the share of n keys that n draws of each thread have at least once, for large n
    order = [plain(name) for name in (*wanted.prepare, *wanted.benchmarks)]
    for name in wanted.measured:
        share, draws = measured.get(f"{name}.found"), measured.get(f"{name}.ops", 0)
        if share is None or share >= 0.9999 or name == "readmissing":
            continue
        filled = [one for one in order[: order.index(name)] if one.startswith(("fill", "overwrite"))]
        text, remedy = f"{name} found {share:.2%} of the keys that it asked for", ""
        error = _STANDARD_ERRORS * math.sqrt(drawn * (1 - drawn) / draws) if draws > 0 else 0.0
        if not filled:
            text += ": nothing filled the database before"
            remedy = "name a benchmark that fills the database in prepare, such as 'fillseq'"
        elif filled[-1] == "fillrandom" and abs(share - drawn) < max(_CHANCE, error):
            times = "" if threads == 1 else f"{threads} times "
            text = (  # the same of each repetition
                f"{name} found about {drawn:.0%} of the keys that it asked for: fillrandom draws {times}as many keys "
                f"as there are, and some of them again, which gives {drawn:.2%} of them"
            )
            remedy = "fillseq and filluniquerandom write every key"
        else:
            text += f" after {filled[-1]}"
        yield Warning_("keys-not-found", text, remedy)


def _quoted(said: str) -> str:
    lines = [line.strip() for line in said.splitlines()]
    kept = [line for line in lines if line and not line.startswith(_CHATTER)]
    return f": {'; '.join(kept[:2])[:_LONGEST_QUOTE]}" if kept else ""


# Metrics and distributions of the benchmarks, and what RocksDB counted for all of them. A benchmark that runs several
# times (`[X3]`) has a line each: its rate is operations over seconds of all of them.

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
