"""The driver db_bench: RocksDB's own benchmarks, in a database of the trial's own.

Parameters are db_bench's flags, as the installed version lists them (`parameters`). Results come from its output
(`claims`); `judge` decides whether they are a measurement. The target is a folder, in
which each trial has an empty one. Nothing is started here.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.drivers.programs import ended_badly, require_version, text_of
from ioassay.errors import ConditionError, InputError, StudyError
from ioassay.formats.number_parsing import whole_number
from ioassay.metrics import percentile_name
from ioassay.packs.rocksdb import claims as db_bench_output
from ioassay.packs.rocksdb.claims import Benchmark, Output
from ioassay.packs.rocksdb.driver import parameters
from ioassay.packs.rocksdb.driver.parameters import Capabilities, Settings, plain
from ioassay.records.record import FAILED, OK, Buckets, Warning_
from ioassay.roles import WRITE, Command, Driver, Estimate, Load, Outcome, Parsed, Tool, Touch, Trial, short_s

MINIMUM = (6, 0)
PROGRAM = "IOASSAY_DB_BENCH"
"""The environment variable that names another db_bench than the first one in PATH. `./ioassay` sets it to what
setup/rocksdb.sh built."""
DATABASE = "db"
_NO_IO_URING = (
    "async_io: this db_bench was built without io_uring; setup/rocksdb.sh of ioassay's source builds one with it"
)
_LONGEST_FACTOR = 20


class DbBench(Driver):
    """Runs db_bench. Implements `roles.Driver`."""

    name = "db_bench"
    measures = True
    length_key = "num"

    def __init__(self) -> None:
        self._offer, self._program = Capabilities(), _program()

    def tool(self) -> Tool | None:
        """db_bench, with its flags and benchmarks."""
        asked = parameters.probes(self._program)
        return Tool(self._program, [self._program, "--version"], MINIMUM, "rocksdb-tools", asked)

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Take its version and flags; ToolError when it is another program or too old to be read."""
        # It says "version" after the name that its file has, which may be that of a build: db_bench-new.
        names = {"db_bench", Path(self._program).name}
        pattern = rf"^(?:{'|'.join(map(re.escape, names))}) version (\d+)\.(\d+)"
        asked, example = f"{self._program} --version", "a line such as db_bench version 7.8.3"
        require_version(version, pattern, MINIMUM, asked=asked, example=example, name="db_bench")
        self._offer = parameters.capabilities(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """Check one point; StudyError names the parameter. Flags are known after `configure`."""
        parameters.read(params, self._offer)
        if (kind := target.get("kind", "null")) == "virtual":
            if (form := target.get("form", "file")) != "folder":
                raise StudyError(
                    f"is '{form}'; db_bench makes a database in a folder: expected 'folder'", key="target.form"
                )
        elif kind != "folder":
            wanted = "expected 'folder', or 'virtual' with form = 'folder'"
            raise StudyError(f"is '{kind}'; db_bench makes a database in a folder: {wanted}", key="target.kind")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """WRITE: also a benchmark that only reads makes a database."""
        return WRITE

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """Nothing beside the target."""
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """From the number of operations."""
        wanted = parameters.read(params, self._offer)
        return Estimate(wanted.expected_s, wanted.written_bytes, occupied_bytes=wanted.occupied_bytes)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `duration`, in whole seconds; None where the load ends after its operations."""
        wanted = parameters.read(params, self._offer)
        alone = len(wanted.benchmarks) == 1 and not wanted.prepare
        part_s = short_s(wanted.number("duration"), share, 1.0) if alone else None
        return None if part_s is None else {**params, "duration": int(part_s)}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """db_bench with its histograms and statistics, and the trial's seed.

        ConditionError: it has no io_uring, and would run the load without it in silence.
        """
        wanted = parameters.read(trial.params, self._offer)
        if wanted.asynchronous and not self._offer.io_uring:
            raise ConditionError(_NO_IO_URING)
        place = (load.path or raw).absolute() / DATABASE
        asked = ["--histogram=1", f"--db={place}"]
        asked += [] if "statistics" in wanted.flags else ["--statistics=1"]
        longest_s = min(max(_LONGEST_FACTOR * wanted.expected_s, 600.0), parameters.LONGEST_S)
        if wanted.process_per_load:
            steps = wanted.steps(self._program, asked, trial.seed % 2**62 or 1)
            return Command.of_steps(steps, longest_s, place.parent, cold=wanted.cold_cache)
        asked += [] if "seed" in wanted.flags else [f"--seed={trial.seed % 2**63 or 1}"]
        return Command([self._program, *wanted.argv(), *asked], longest_s, cwd=place.parent)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Read its results; `failed`, with its own words, for everything that is no measurement."""
        if outcome is None:
            return Parsed(FAILED, "db_bench was not started")
        printed, said = text_of(outcome.stdout), text_of(outcome.stderr)
        try:
            wanted = parameters.read(trial.params, self._offer)
        except StudyError as error:
            return Parsed(FAILED, str(error))
        output, unread = db_bench_output.Output(()), ""
        try:
            outputs = _outputs(outcome, printed)
            output = db_bench_output.merged([one for _, one in outputs])
            measured = benchmark_metrics(output, wanted.measured)
            for name, one in outputs if outcome.steps else ():
                counted = statistics(one.tickers) if name else {}
                measured |= {f"{name}.{key}": value for key, value in counted.items()}
            buckets = benchmark_buckets(output, wanted.measured)
        except InputError as error:
            measured, buckets, unread = {}, [], str(error)
        claims = db_bench_output.claims(output, wanted.argv()) if output.benchmarks else []
        status, reason = judge(wanted, measured, outcome, said)
        if status != OK:
            silent = unread and ": " not in reason  # it left no words of its own
            return Parsed(FAILED, f"{reason}: {unread}" if silent else reason, claims=claims)
        own = {
            name: {key: value for key, value in measured.items() if key.startswith(f"{name}.")}
            for name in wanted.measured
        }
        return Parsed(
            OK,
            metrics=measured,
            buckets=buckets,
            parts=[{"name": name, "metrics": metrics} for name, metrics in own.items()],
            claims=claims,
            warnings=suspicions(wanted, measured, output),
        )


def _program() -> str:
    """The db_bench to run. It is started in the folder of the database, so that a path must not be relative."""
    named = os.environ.get(PROGRAM) or "db_bench"
    return str(Path(named).absolute()) if "/" in named else named


def _outputs(outcome: Outcome, printed: str) -> list[tuple[str, db_bench_output.Output]]:
    """Of each process, with its step's name."""
    if not outcome.steps:
        return [("", db_bench_output.parse(printed))]
    encoded, begin, found = printed.encode(), 0, []
    for step in outcome.steps:
        text = encoded[begin : step.stdout_end].decode(errors="replace")
        begin = step.stdout_end
        if step.name or db_bench_output.CLAIMS.looks_like(text):
            found.append((step.name, db_bench_output.parse(text)))
    return found


# Was this a measurement? And what db_bench itself, and the kind of its load, say against its numbers.

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


def benchmark_metrics(output: Output, wanted: Sequence[str]) -> dict[str, float]:
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


def benchmark_buckets(output: Output, wanted: Sequence[str]) -> list[Buckets]:
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
