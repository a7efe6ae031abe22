"""What a study wants of db_bench: its parameters read and checked against the offer, and the arguments made of them.

Parameters are db_bench's own flags without their dashes. `benchmarks` are measured, `prepare` are run before them on
the same database and not measured; with `process_per_load` each is a process of its own (`steps`). Flags that would
take the place or the output out of the lab's hands are refused.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.hints import suggestion
from ioassay.pack import words
from ioassay.roles import Step

LONGEST_S = 24 * 3600.0
"""db_bench ends after its operations, however long they take; this only ends what hangs."""
_DEFAULTS = {"num": 1_000_000, "key_size": 16, "value_size": 100, "duration": 0, "threads": 1}
_SLOWEST_US = 20.0
"""Of an operation, as a forecast: compaction of a large database included."""
_COPIES = 4
"""How often a value is written: to the log, to a table, and by compactions."""
_META = frozenset(
    words(
        "compact compactall compact0 compact1 waitforcompaction flush stats resetstats levelstats memstats "
        "sstables heapprofile cachestats cleanup"
    )
)
"""Benchmarks that have no line of results."""
_NEW_DATABASE = frozenset(
    words(
        "fillseq fillrandom filluniquerandom fillbatch fillsync fill100K fillseqdeterministic "
        "filluniquerandomdeterministic fillseekseq timeseries"
    )
)
"""Benchmarks that begin with an empty database of their own."""
_OWN = ("benchmarks", "prepare", "process_per_load", "cold_cache")
"""Parameters that are no flags."""
_SEED_STEP = 1_000_003
"""Between the seeds of two processes. With the same seed, reads would draw the keys in the order in which fillrandom
drew them, and find them all."""
_OUTPUT = "the lab reads db_bench's output and asks for what it needs"
_PLACE = "the database lies in the study's target: use [target] kind = 'folder'"
_REFUSED = {
    **dict.fromkeys(words("db wal_dir secondary_path backup_dir restore_dir fs_uri env_uri"), _PLACE),
    **dict.fromkeys(words("histogram help version progress_reports stats_interval report_file"), _OUTPUT),
    **dict.fromkeys(words("flagfile fromenv tryfromenv undefok"), "the study says all that holds for a trial"),
    **dict.fromkeys(
        words(
            "trace_file block_cache_trace_file block_cache_trace_path human_readable_trace_file_path "
            "block_cache_analysis_result_dir block_cache_sim_config_path persistent_cache_path"
        ),
        "writes outside of the study's target",
    ),
    "use_existing_db": "each trial has a database of its own: name what fills it in prepare",
}
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
    def asynchronous(self) -> bool:
        """Whether reads are asked for that wait together, which RocksDB does by io_uring alone."""
        return self.flags.get("async_io", "false").lower() in ("true", "1")

    @property
    def expected_s(self) -> float:
        """A forecast."""
        per_run_s = self.number("duration") or self.number("num") * _SLOWEST_US / 1e6
        return max(per_run_s * (len(self.benchmarks) + len(self.prepare)), 1.0)

    @property
    def written_bytes(self) -> int:
        """A forecast of what is written to the target."""
        return self.occupied_bytes * _COPIES

    @property
    def occupied_bytes(self) -> int:
        """A forecast of what the database takes: all that is put into it, before compactions make it smaller."""
        filling = sum(plain(name) not in _META and "read" not in name for name in (*self.prepare, *self.benchmarks))
        filling *= self.number("threads")
        return filling * self.number("num") * (self.number("key_size") + self.number("value_size"))

    def argv(self) -> list[str]:
        """The arguments of the load."""
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
    benchmarks = _benchmarks(params, "benchmarks", offer)
    if not benchmarks:
        raise _wrong("benchmarks", "is missing; expected db_bench's names, such as 'fillseq,readseq'")
    prepare = _benchmarks(params, "prepare", offer)
    flags = {key: _flag(key, value, offer) for key, value in params.items() if key not in _OWN}
    apart, cold = _switch(params, "process_per_load"), _switch(params, "cold_cache")
    if cold and not apart:
        raise _wrong("cold_cache", "is set, and one process runs all loads; expected process_per_load = true with it")
    found = Settings(benchmarks, prepare, flags, apart, cold)
    # A benchmark that fills begins with an empty database, so nothing that was prepared may come before it.
    late = [name for name in benchmarks if plain(name) in _NEW_DATABASE]
    if prepare and late:
        what = f"'{late[0]}' empties the database, and with it what '{prepare[-1]}' prepared"
        raise _wrong("prepare", f"{what}; expected one without the other")
    return found


def _switch(params: Mapping[str, Any], key: str) -> bool:
    value = params.get(key, False)
    if not isinstance(value, bool):
        raise _wrong(key, f"is {value!r}; expected true or false")
    return value


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
    return _number(name, value, kind) if kind.startswith(("int", "uint")) or kind == "double" else str(value)


def _number(name: str, value: float | str, kind: str) -> str:
    """Sizes such as '64MiB' become bytes: db_bench itself knows no units."""
    if isinstance(value, int | float):
        number = value
    else:
        try:
            number = float(value) if kind == "double" else units.parse_size(value)
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
UNLISTED = frozenset(
    words(
        "approximatesizerandom compress fillanddeleteuniquerandom fillbatch filluniquerandom mixgraph "
        "multireadrandom newiteratorwhilewriting randomwithverify readrandomfast readrandomsmall readtorowcache "
        "uncompress verify verifychecksum verifyfilechecksums"
    )
)
"""Benchmarks that db_bench runs and its help does not name (7.8; Benchmark::Run in db_bench_tool.cc)."""


@dataclass(frozen=True)
class Capabilities:
    """What one db_bench offers. Empty: not asked."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """Name -> 'bool', 'int32', 'int64', 'uint32', 'uint64', 'double' or 'string'."""
    benchmarks: Sequence[str] = ()
    io_uring: bool = True
    """Whether it was built with io_uring; without it reads by `async_io` wait for each other, and it says nothing."""


def probes(program: str = "db_bench") -> dict[str, Sequence[str]]:
    """The commands that `capabilities` wants the answers of."""
    path = shutil.which(program) or program
    return {"help": [program, "--help"], "libraries": ["ldd", path], "io_uring": ["grep", "-c", _OF_IO_URING, path]}


def capabilities(answers: Mapping[str, str]) -> Capabilities:
    """The offer behind the answers of `probes`; what an answer does not say is left out."""
    text, libraries = answers.get("help", ""), answers.get("libraries", "")
    flags = {found["name"]: kind[1] for found in _FLAG.finditer(text) if (kind := _TYPE.search(found["rest"]))}
    linked = "liburing" in libraries or (answers.get("io_uring", "").strip().isdigit() and int(answers["io_uring"]) > 0)
    return Capabilities(flags, tuple(dict.fromkeys(_BENCHMARK.findall(text))), linked or not libraries)
