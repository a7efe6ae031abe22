"""The driver db_bench: RocksDB's own benchmarks, in a database of the trial's own.

Parameters are db_bench's own flags without their dashes, as the installed version lists them. `benchmarks` are
measured, `prepare` are run before them on the same database and not measured; with `process_per_load` each is a process
of its own (`Settings.steps`). Flags that would take the place or the output out of the lab's hands are refused.
Results come from its output (`claims`); `judge` decides whether they are a measurement. The target is a folder, in
which each trial has an empty one. Nothing is started here.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.drivers import ended_badly, flag, require_version, text_of
from ioassay.errors import ConditionError, InputError, StudyError
from ioassay.formats.number_parsing import whole_number
from ioassay.hints import suggestion
from ioassay.metrics import percentile_name
from ioassay.pack import words
from ioassay.packs.rocksdb import claims as db_bench_output
from ioassay.packs.rocksdb.claims import Benchmark, Output
from ioassay.records.record import FAILED, OK, Buckets, Warning_
from ioassay.roles import WRITE, Command, Driver, Estimate, Load, Outcome, Parsed, Step, Tool, Trial, short_s

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
        self._offer = Capabilities()
        named = os.environ.get(PROGRAM) or "db_bench"
        # It is started in the folder of the database, so that a path must not be relative.
        self._program = str(Path(named).absolute()) if "/" in named else named

    def tool(self) -> Tool:
        program = self._program
        path = shutil.which(program) or program
        probes = {
            "help": [program, "--help"],
            "libraries": ["ldd", path],
            "io_uring": ["grep", "-c", _OF_IO_URING, path],
        }
        return Tool(program, [program, "--version"], (6, 0), "rocksdb-tools", probes)

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        # It says "version" after the name that its file has, which may be that of a build: db_bench-new.
        names = {"db_bench", Path(self._program).name}
        pattern = rf"^(?:{'|'.join(map(re.escape, names))}) version (\d+)\.(\d+)"
        require_version(self.tool(), version, pattern, "a line such as db_bench version 7.8.3")
        self._offer = capabilities(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        read(params, self._offer)
        why, kind = "db_bench makes a database in a folder", target.get("kind", "null")
        if kind == "virtual" and (form := target.get("form", "file")) != "folder":
            raise StudyError(f"is '{form}'; {why}: expected 'folder'", key="target.form")
        if kind not in ("virtual", "folder"):
            wanted = "expected 'folder', or 'virtual' with form = 'folder'"
            raise StudyError(f"is '{kind}'; {why}: {wanted}", key="target.kind")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """WRITE: also a benchmark that only reads makes a database."""
        return WRITE

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        wanted = read(params, self._offer)
        return Estimate(wanted.expected_s, wanted.occupied_bytes * _COPIES, occupied_bytes=wanted.occupied_bytes)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `duration`, in whole seconds; None where the load ends after its operations."""
        wanted = read(params, self._offer)
        alone = len(wanted.benchmarks) == 1 and not wanted.prepare
        part_s = short_s(wanted.number("duration"), share, 1.0) if alone else None
        return None if part_s is None else {**params, "duration": int(part_s)}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """db_bench with its histograms and statistics, and the trial's seed.

        ConditionError: it has no io_uring, and would run the load without it in silence.
        """
        wanted = read(trial.params, self._offer)
        # Reads that wait together, which RocksDB does by io_uring alone.
        if wanted.flags.get("async_io", "false").lower() in ("true", "1") and not self._offer.io_uring:
            raise ConditionError(_NO_IO_URING)
        place = (load.path or raw).absolute() / DATABASE
        asked = ["--histogram=1", f"--db={place}"]
        asked += [] if "statistics" in wanted.flags else ["--statistics=1"]
        longest_s = min(max(_LONGEST_FACTOR * wanted.expected_s, 600.0), _LONGEST_S)
        if wanted.process_per_load:
            steps = wanted.steps(self._program, asked, trial.seed % 2**62 or 1)
            return Command.of_steps(steps, longest_s, place.parent, cold=wanted.cold_cache)
        asked += [] if "seed" in wanted.flags else [f"--seed={trial.seed % 2**63 or 1}"]
        return Command([self._program, *wanted.argv(), *asked], longest_s, cwd=place.parent)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Read its results; `failed`, with its own words, for everything that is no measurement."""
        if outcome is None:
            return Parsed(FAILED, "db_bench was not started")
        try:
            wanted = read(trial.params, self._offer)
        except StudyError as error:
            return Parsed(FAILED, str(error))
        output, unread = Output(()), ""
        try:
            outputs = _outputs(outcome)
            output = db_bench_output.merged([one for _, one in outputs])
            measured = benchmark_metrics(output, wanted.measured)
            for name, one in outputs if outcome.steps else ():
                counted = statistics(one.tickers) if name else {}
                measured |= {f"{name}.{key}": value for key, value in counted.items()}
            buckets = benchmark_buckets(output, wanted.measured)
        except InputError as error:
            measured, buckets, unread = {}, [], str(error)
        claims = db_bench_output.claims(output, wanted.argv()) if output.benchmarks else []
        if reason := judge(wanted, measured, outcome):
            silent = unread and ": " not in reason  # it left no words of its own
            return Parsed(FAILED, f"{reason}: {unread}" if silent else reason, claims=claims)
        return Parsed(
            OK,
            metrics=measured,
            buckets=buckets,
            parts=[
                {"name": name, "metrics": {key: one for key, one in measured.items() if key.startswith(f"{name}.")}}
                for name in wanted.measured
            ],
            claims=claims,
            warnings=suspicions(wanted, measured, output),
        )


def _outputs(outcome: Outcome) -> list[tuple[str, Output]]:
    """Of each process, with its step's name."""
    printed = text_of(outcome.stdout)
    if not outcome.steps:
        return [("", db_bench_output.parse(printed))]
    encoded, begin, found = printed.encode(), 0, []
    for step in outcome.steps:
        text = encoded[begin : step.stdout_end].decode(errors="replace")
        begin = step.stdout_end
        if step.name or db_bench_output.CLAIMS.looks_like(text):
            found.append((step.name, db_bench_output.parse(text)))
    return found


# What a study wants of db_bench: its parameters read and checked against the offer, and the arguments made of them.

_LONGEST_S = 24 * 3600.0
"""db_bench ends after its operations, however long they take; this only ends what hangs."""
_DEFAULTS = {"num": 1_000_000, "key_size": 16, "value_size": 100, "duration": 0, "threads": 1}
_SLOWEST_US = 20.0
"""Of an operation, as a forecast: compaction of a large database included."""
_COPIES = 4
"""How often a value is written: to the log, to a table, and by compactions."""
_TABLES = tomllib.loads(Path(__file__).with_name("db_bench.toml").read_text(encoding="utf-8"))
_META, _NEW_DATABASE, UNLISTED = (frozenset(words(_TABLES[name])) for name in ("meta", "new_database", "unlisted"))
_REFUSED = {flag: why for why, flags in _TABLES["refused"].items() for flag in words(flags)}
_OWN = ("benchmarks", "prepare", "process_per_load", "cold_cache")
"""Parameters that are no flags."""
_SEED_STEP = 1_000_003
"""Between the seeds of two processes. With the same seed, reads would draw the keys in the order in which fillrandom
drew them, and find them all."""
_SUFFIX = re.compile(r"^(?P<name>\w+?)(?:\[(?:[XW]\d+-?)+\])?$")


@dataclass(frozen=True)
class Settings:
    """One point as db_bench will see it."""

    benchmarks: Sequence[str]
    prepare: Sequence[str]
    flags: Mapping[str, str]
    process_per_load: bool = False
    cold_cache: bool = False
    """Whether each load begins without pages of the database in the page cache."""

    def number(self, flag: str) -> int:
        """A flag's value, or db_bench's own default."""
        return int(float(self.flags.get(flag, _DEFAULTS[flag])))

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of those that have a line of results, in their order, without suffixes such as `[X3]`."""
        return tuple(dict.fromkeys(name for name in map(plain, self.benchmarks) if name not in _META))

    @property
    def expected_s(self) -> float:
        per_run_s = self.number("duration") or self.number("num") * _SLOWEST_US / 1e6
        return max(per_run_s * (len(self.benchmarks) + len(self.prepare)), 1.0)

    @property
    def occupied_bytes(self) -> int:
        """A forecast of what the database takes: all that is put into it, before compactions make it smaller."""
        filling = sum(plain(name) not in _META and "read" not in name for name in (*self.prepare, *self.benchmarks))
        filling *= self.number("threads")
        return filling * self.number("num") * (self.number("key_size") + self.number("value_size"))

    def argv(self) -> list[str]:
        return _argv((*self.prepare, *self.benchmarks), self.flags)

    def steps(self, program: str, more: Sequence[str], seed: int) -> list[Step]:
        """A process for what prepares, and one for each load with what follows it and has no line of results.

        A load that writes ends with a flush: what it leaves in memory would be written by the next.
        """
        groups: list[tuple[str, list[str]]] = [("", list(self.prepare))] if self.prepare else []
        for name in self.benchmarks:
            if plain(name) in _META and groups:
                groups[-1][1].append(name)
            else:
                groups.append(("" if plain(name) in _META else plain(name), [name]))
        found = []
        for number, (load, names) in enumerate(groups):
            writes = any(plain(name) not in _META and "read" not in name for name in names)
            flush = ["flush"] if writes and plain(names[-1]) not in _META else []
            own = {**self.flags, "seed": str(int(self.flags.get("seed", seed)) + number * _SEED_STEP)}
            existing = [] if number == 0 or plain(names[0]) in _NEW_DATABASE else ["--use_existing_db=1"]
            found.append(Step(load, [program, *_argv((*names, *flush), own), *existing, *more]))
        return found


def _argv(benchmarks: Sequence[str], flags: Mapping[str, str]) -> list[str]:
    return [f"--benchmarks={','.join(benchmarks)}", *(f"--{name}={value}" for name, value in flags.items())]


def plain(benchmark: str) -> str:
    """The name without its repetitions and warm-ups: `readrandom` of `readrandom[X3-W1]`."""
    found = _SUFFIX.match(benchmark)
    return found["name"] if found else benchmark


def read(params: Mapping[str, Any], offer: Capabilities) -> Settings:
    """The settings in `params`; StudyError names the key that is wrong. An offer that was not asked checks less."""
    if not (benchmarks := _benchmarks(params, "benchmarks", offer)):
        raise _wrong("benchmarks", "is missing; expected db_bench's names, such as 'fillseq,readseq'")
    prepare = _benchmarks(params, "prepare", offer)
    flags = {key: _flag(key, value, offer) for key, value in params.items() if key not in _OWN}
    apart, cold = flag(params, "process_per_load"), flag(params, "cold_cache")
    if cold and not apart:
        raise _wrong("cold_cache", "is set, and one process runs all loads; expected process_per_load = true with it")
    found = Settings(benchmarks, prepare, flags, apart, cold)
    # A benchmark that fills begins with an empty database, so nothing that was prepared may come before it.
    late = [name for name in benchmarks if plain(name) in _NEW_DATABASE]
    if prepare and late:
        what = f"'{late[0]}' empties the database, and with it what '{prepare[-1]}' prepared"
        raise _wrong("prepare", f"{what}; expected one without the other")
    return found


def _wrong(key: str, message: str) -> StudyError:
    return StudyError(message, key=f"params.{key}")


def _benchmarks(params: Mapping[str, Any], key: str, offer: Capabilities) -> tuple[str, ...]:
    value = params.get(key, ())
    given = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if given is None or not all(isinstance(word, str) for word in given):
        raise _wrong(key, f"is {value!r}; expected names of benchmarks, such as 'fillseq,readseq'")
    names = tuple(word.strip() for word in given if word.strip())
    for name in names:
        if not _SUFFIX.match(name):
            raise _wrong(key, f"has '{name}'; expected a name, with repetitions if you like: 'readrandom[X3]'")
        known = {*offer.benchmarks, *UNLISTED, *_META, *_NEW_DATABASE}
        if offer.benchmarks and plain(name) not in known:
            hint = suggestion(plain(name), known, "'db_bench --help' lists most of them")
            raise _wrong(key, f"this db_bench knows no benchmark '{plain(name)}'; {hint}")
    return names


def _flag(name: str, value: Any, offer: Capabilities) -> str:
    if name in _REFUSED:
        raise _wrong(name, f"cannot be set: {_REFUSED[name]}")
    if offer.flags and name not in offer.flags:
        hint = suggestion(name, offer.flags, "'db_bench --help' lists them")
        raise _wrong(name, f"this db_bench has no flag '{name}'; {hint}")
    kind = offer.flags.get(name, "")
    if not isinstance(value, bool | int | float | str):
        raise _wrong(name, f"is {value!r}; expected a number, a word, true or false")
    if kind == "bool":
        if str(value).lower() not in ("true", "false", "0", "1"):
            raise _wrong(name, f"is {value!r}; expected true or false")
        return str(value).lower()
    if isinstance(value, bool):
        if kind:
            raise _wrong(name, f"is {str(value).lower()}; db_bench wants a value of type {kind}")
        return str(value).lower()
    if not kind.startswith(("int", "uint", "double")):
        return str(value)
    try:  # sizes such as '64MiB' become bytes: db_bench itself knows no units
        number = value if not isinstance(value, str) else float(value) if kind == "double" else units.parse_size(value)
    except ValueError:
        raise _wrong(name, f"is '{value}'; db_bench wants a number of type {kind}") from None
    if kind != "double" and number != int(number):
        raise _wrong(name, f"is {value}; db_bench wants a whole number")
    if kind.startswith("uint") and number < 0:
        raise _wrong(name, f"is {value}; db_bench wants no number below 0")
    return str(number if kind == "double" else int(number))


# What the installed db_bench offers: its flags with their types, and the benchmarks that its help names.

_FLAG = re.compile(r"^ {4}-(?P<name>[A-Za-z]\w*) \((?P<rest>.*?)(?=^ {4}-[A-Za-z]\w* \(|\Z)", re.M | re.S)
_TYPE = re.compile(r"\)\s+type:\s+(\w+)")
_OF_IO_URING = "io_uring_submit error"
"""In a message that RocksDB has with io_uring only (PosixRandomAccessFile::ReadAsync in env/io_posix.cc)."""
_BENCHMARK = re.compile(r"^\s*\t(\w+)\s+--? ", re.M)


@dataclass(frozen=True)
class Capabilities:
    """What one db_bench offers. Empty: not asked."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """Name -> 'bool', 'int32', 'int64', 'uint32', 'uint64', 'double' or 'string'."""
    benchmarks: Sequence[str] = ()
    io_uring: bool = True
    """Whether it was built with io_uring; without it reads by `async_io` wait for each other, and it says nothing."""


def capabilities(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of the tool's probes; what an answer does not say is left out."""
    text, libraries = answers.get("help", ""), answers.get("libraries", "")
    flags = {found["name"]: kind[1] for found in _FLAG.finditer(text) if (kind := _TYPE.search(found["rest"]))}
    linked = "liburing" in libraries or (answers.get("io_uring", "").strip().isdigit() and int(answers["io_uring"]) > 0)
    return Capabilities(flags, tuple(dict.fromkeys(_BENCHMARK.findall(text))), linked or not libraries)


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


def judge(wanted: Settings, measured: Mapping[str, float], outcome: Outcome) -> str:
    """Why a trial failed, with the first words of its standard error; '' where it is ok."""
    lines = (line.strip() for line in text_of(outcome.stderr).splitlines())
    kept = [line for line in lines if line and not line.startswith(_CHATTER)]
    said = f": {'; '.join(kept[:2])[:_LONGEST_QUOTE]}" if kept else ""
    if reason := ended_badly(outcome, "db_bench", "raise run.timeout, or lower params.num", lambda: said):
        return reason
    if outcome.exit_code:
        return f"db_bench failed (exit status {outcome.exit_code}){said}"
    missing = [name for name in wanted.measured if f"{name}.ops_rate" not in measured]
    return f"db_bench printed no results of {', '.join(missing)}{said}" if missing else ""


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
    # Why reads did not find all keys: random writes draw with replacement.
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
        found.append(Warning_("keys-not-found", text, remedy))
    return found


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
    runs = {name: [benchmark for benchmark in output.benchmarks if benchmark.name == name] for name in wanted}
    found = {f"{name}.{key}": value for name, own in runs.items() if own for key, value in _of_runs(own).items()}
    return {**found, **statistics(output.tickers), **_syncs(output)}


def _syncs(output: Output) -> dict[str, float]:
    """Of the log, as RocksDB timed them; percentiles of one process alone."""
    said, synced = output.syncs_us, output.tickers.get("rocksdb.wal.synced", 0)
    times_us = dict(zip(("p50", "p95", "p99", "max"), said[0], strict=False)) if len(said) == 1 else {}
    if said:
        times_us["mean"] = sum(each[5] for each in said) / sum(each[4] for each in said)
    found = {f"sync.lat.{name}": value * 1e3 for name, value in times_us.items()}
    return {**found, "sync.ios": synced} if synced else found


def _of_runs(runs: Sequence[Benchmark]) -> dict[str, float]:
    """Rates, the share of the keys asked for that the database had, and times of operations.

    Of one run there are db_bench's own percentiles. Several runs, and reads and writes that it tells apart, are merged
    by `benchmark_buckets`, and there is only their mean.
    """
    found: dict[str, float] = {}
    if timed := [(run, run.operations, run.seconds) for run in runs if run.operations and run.seconds]:
        operations = sum(operations for _, operations, _ in timed)
        printed = runs[0].operations_per_s if len(runs) == 1 else None
        rate = printed or operations / sum(seconds for _, _, seconds in timed)
        found = {"ops_rate": rate, "ops": float(operations)}
        moved = [(run.rate_bytes_per_s, seconds) for run, _, seconds in timed if run.rate_bytes_per_s is not None]
        if moved:
            found["bw"] = sum(rate * seconds for rate, seconds in moved) / sum(seconds for _, seconds in moved)
    elif means_ns := [run.mean_ns for run in runs if run.mean_ns]:
        found["ops_rate"] = 1e9 * len(means_ns) / sum(means_ns)
    if asked := sum(run.keys_asked for run in runs):
        found["found"] = sum(run.keys_found for run in runs) / asked
    times_ns = {"mean": sum(run.mean_ns for run in runs) / len(runs)}
    if len(runs) == 1 and len(runs[0].histograms) == 1:
        (histogram,) = runs[0].histograms
        times_ns |= {percentile_name(percent): value for percent, value in histogram.percentiles_ns.items()}
        times_ns |= histogram.spread_ns
    return found | {f"op_time.{key}": value for key, value in times_ns.items()}


def benchmark_buckets(output: Output, wanted: Sequence[str]) -> list[Buckets]:
    """One distribution a benchmark, at the upper ends of db_bench's buckets."""
    found = []
    for name in wanted:
        counts = Counter[int]()
        for benchmark in output.benchmarks:
            for histogram in benchmark.histograms if benchmark.name == name else ():
                counts.update(histogram.buckets)
        whole_number(sum(counts.values()), f"{name} count of all buckets")
        if counts:
            values_ns = sorted(counts)
            found.append(Buckets(name, "op", values_ns, [counts[value_ns] for value_ns in values_ns]))
    return found


def statistics(tickers: Mapping[str, int]) -> dict[str, float]:
    """RocksDB's counters over the whole process, or over several, what prepared the database included."""
    found = {f"rocksdb.{key}": tickers[name] * factor for key, (name, factor) in _TICKERS.items() if name in tickers}
    if (user := found.get("rocksdb.user_bytes", 0.0)) > 0:
        parts = ("wal_bytes", "flush_bytes", "compaction_write_bytes")
        found["rocksdb.write_amplification"] = sum(found.get(f"rocksdb.{part}", 0.0) for part in parts) / user
    hits, misses = tickers.get("rocksdb.block.cache.hit", 0), tickers.get("rocksdb.block.cache.miss", 0)
    if hits + misses:
        found["rocksdb.cache_hit_ratio"] = hits / (hits + misses)
    return {name: value for name, value in found.items() if math.isfinite(value)}
