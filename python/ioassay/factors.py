"""The registry of factors: label, unit and kind of each, how its levels are read, compared, put in order and shown.

A factor that is not listed is still usable: it is called as it is typed, and its levels are read as options of tools
are. Two levels are the same when `level_key` is, and nothing else decides it. Sentences are made elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ioassay import units
from ioassay.records.record import Scalar

CASE = "case"
"""The factor whose levels are the names of a study's [[case]] tables."""
HOST = "host"
"""The factor whose levels are the hosts that measure (`run.hosts`)."""


class Kind(StrEnum):
    """What the levels of a factor are, which decides when two of them are the same."""

    OPTION = "option"
    """Of a tool, unlisted: numbers, sizes, times and percentages by their value, all else by its text."""
    NUMBER = "number"
    """Numbers, with `k` for 1024 as fio and IOzone have it; true is 1."""
    SIZE = "size"
    """Bytes, alone or in lists and ranges such as `4k-64k`."""
    DURATION = "duration"
    """Times; a bare number is in the factor's unit."""
    SHARE = "share"
    """`50%` is 0.5."""
    SWITCH = "switch"
    """Yes or no: true, 1, `yes` and `on` are the same."""
    COMPOUND = "compound"
    """Words with numbers, sizes or times behind them: `closed:32`."""
    PROCESSORS = "processors"
    """Lists of processors: `0-2` is `0,1,2`."""
    POLICY = "policy"
    """Scheduling policies; case makes no difference."""
    TEXT = "text"
    """Names, paths and patterns of bytes: the same only where every character is."""


PROCESSOR, IN_FLIGHT, LOAD = "processor", "in flight", "load"
"""What a factor counts: workers that take a processor each, requests that take none, or requests asked for a second."""


@dataclass(frozen=True)
class Factor:
    """What a factor is. An empty text leaves it to the rule for factors that are not listed."""

    name: str
    label: str = ""
    """Inside a sentence: `block size`."""
    kind: Kind = Kind.OPTION
    unit: str = ""
    """Of a bare number: bytes, %, s, ms, µs, ns."""
    phrase: str = ""
    """A level inside a sentence: `{} jobs`."""
    single: str = ""
    """The level 1 inside a sentence: `1 job`."""
    step: str = ""
    """What a slope is given per: `job`."""
    preposition: str = ""
    """Before a level, where it is neither `at` nor `with`."""
    off_on: tuple[str, str] | None = None
    """What false and true are called."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Level -> what it is called in a sentence."""
    synonyms: Mapping[str, str] = field(default_factory=dict)
    """Level -> another word that the tools take for the same."""
    aliases: tuple[str, ...] = ()
    """Other names of the same option."""
    offers: str = ""
    """The metric of which each job is offered that much a second, of a rate: `iops`."""
    counts: str = ""
    """PROCESSOR or IN_FLIGHT, of what works at the same time; LOAD of a rate that is asked for; '' of all else."""


def _kinds(kind: Kind, names: str, unit: str = "") -> tuple[Factor, ...]:
    return tuple(Factor(name, kind=kind, unit=unit) for name in names.split())


_RW = {
    "read": "sequential reads",
    "write": "sequential writes",
    "rw": "sequential access (rw)",
    "randread": "random reads",
    "randwrite": "random writes",
    "randrw": "random access (randrw)",
}

FACTORS: tuple[Factor, ...] = (
    Factor(CASE, "case", Kind.TEXT, phrase="{}", preposition="with"),
    Factor("target.drive", "drive", Kind.TEXT, phrase="drive {}", preposition="on"),
    Factor(HOST, "host", Kind.TEXT, phrase="host {}", preposition="on"),
    # Requests and their pattern
    Factor("bs", "block size", Kind.SIZE, "bytes", "{}", aliases=("blocksize",)),
    Factor("bsrange", kind=Kind.COMPOUND, aliases=("blocksize_range",)),
    Factor("bssplit", kind=Kind.COMPOUND),
    Factor("cmdprio_bssplit", kind=Kind.COMPOUND),
    Factor("direct", "direct I/O", Kind.SWITCH, off_on=("buffered", "direct")),
    Factor("file_size", "file size", Kind.SIZE, "bytes"),
    Factor("filesize", kind=Kind.SIZE, unit="bytes"),
    Factor("fsync", kind=Kind.NUMBER),
    Factor("iodepth", "queue depth", Kind.NUMBER, phrase="queue depth {}", step="request in flight", counts=IN_FLIGHT),
    Factor("ioengine", "I/O engine", Kind.TEXT, phrase="{}"),
    Factor("numjobs", "number of jobs", Kind.NUMBER, phrase="{} jobs", single="1 job", step="job", counts=PROCESSOR),
    Factor("random_distribution", kind=Kind.COMPOUND),
    Factor("rate", "offered bandwidth", Kind.SIZE, "bytes/s", "{} offered", offers="bw", counts=LOAD),
    Factor(
        "rate_iops",
        "offered IOPS",
        Kind.NUMBER,
        phrase="{} IOPS offered",
        step="request offered a second",
        offers="iops",
        counts=LOAD,
    ),
    Factor(
        "rate_process",
        "arrival process",
        Kind.TEXT,
        phrase="{} arrivals",
        words={"linear": "evenly spaced arrivals", "poisson": "Poisson arrivals"},
        preposition="with",
    ),
    Factor("record_size", "record size", Kind.SIZE, "bytes"),
    Factor(
        "rw",
        "access pattern",
        Kind.COMPOUND,
        words=_RW,
        synonyms={"readwrite": "rw"},
        aliases=("readwrite",),
        preposition="with",
    ),
    Factor("rwmixread", "read share", Kind.NUMBER, "%", "{} % reads", step="% of reads"),
    Factor("rwmixwrite", "write share", Kind.NUMBER, "%", "{} % writes", step="% of writes"),
    Factor("size", kind=Kind.SIZE, unit="bytes"),
    Factor("sync", kind=Kind.SWITCH, synonyms={"none": "0", "sync": "1"}),
    Factor("test", "test", phrase="{}"),
    # Stressors
    Factor("cache-fence", "cache fence", Kind.SWITCH),
    Factor("cpu-method", "CPU method", Kind.TEXT, phrase="method {}"),
    Factor("l1cache-sets", "number of cache sets", Kind.NUMBER, "", "{} cache sets", "1 cache set", "cache set"),
    Factor("sched", "scheduling policy", Kind.POLICY, phrase="{}", preposition="under"),
    Factor("sched-deadline", "deadline", Kind.NUMBER, "ns", "a deadline of {}", step="nanosecond of the deadline"),
    Factor("sched-period", kind=Kind.NUMBER, unit="ns"),
    Factor("sched-prio", "real-time priority", Kind.NUMBER, phrase="priority {}", step="step of priority"),
    Factor("sched-runtime", kind=Kind.NUMBER, unit="ns"),
    Factor("shm-bytes", "size of shared memory"),
    Factor("taskset", kind=Kind.PROCESSORS),
    Factor(
        "workers",
        "number of workers",
        Kind.NUMBER,
        phrase="{} workers",
        single="1 worker",
        step="worker",
        counts=PROCESSOR,
    ),
    Factor("zlib-mem-level", "zlib memory level", Kind.NUMBER, phrase="memory level {}", step="memory level"),
    *(Factor(name, kind=Kind.NUMBER, counts=PROCESSOR) for name in ("threads", "jobs", "processes")),
    *(Factor(name, kind=Kind.NUMBER, counts=PROCESSOR) for name in ("clients", "instances")),
    # Databases
    Factor("compression_type", "compression", Kind.TEXT, phrase="compression {}"),
    # Simulated drives
    Factor("buffer", "write buffer size", Kind.SIZE, "bytes", "a buffer of {}"),
    Factor("drive", "drive", Kind.TEXT, phrase="{}"),
    Factor("elements", "flash elements", Kind.NUMBER, phrase="{} elements", single="1 element"),
    Factor("feed", "feeding", Kind.COMPOUND, phrase="feeding {}"),
    Factor("page", "page size", Kind.SIZE, "bytes", "pages of {}"),
    # Replayed traces
    Factor("pace", "pace", Kind.TEXT, phrase="{} pace", preposition="with"),
    Factor("speed", "speed", Kind.NUMBER, phrase="speed {}"),
    Factor("policy", kind=Kind.TEXT, phrase="{}"),
    Factor("sizes", "sizes of requests", Kind.COMPOUND, phrase="sizes {}"),
    Factor("write_behind", "write-behind", Kind.TEXT, phrase="write-behind {}"),
    Factor("window", kind=Kind.NUMBER, synonyms={"none": "0"}),
    # Conditions of a trial
    Factor("run.affinity", "processor affinity", Kind.PROCESSORS, phrase="processors {}", preposition="on"),
    Factor("run.cooldown", "pause between trials", Kind.DURATION, "s"),
    Factor("run.cpu_limit", "CPU limit", Kind.SHARE, phrase="a CPU limit of {}", single="a CPU limit of 1 processor"),
    Factor("run.drop_caches", "dropping of caches", Kind.SWITCH),
    Factor("run.governor", "CPU frequency governor", Kind.TEXT),
    Factor("run.memory_limit", "memory limit", phrase="{} of memory"),
    Factor("run.nice", "niceness", Kind.NUMBER, phrase="niceness {}"),
    Factor("run.scheduler", "scheduling policy", Kind.POLICY, phrase="{}", preposition="under"),
    Factor("run.timeout", "time limit", Kind.DURATION, "s"),
    # The target
    Factor("target.keep", "keeping of the target's file", Kind.SWITCH),
    Factor("target.kind", "kind of target", Kind.TEXT),
    Factor("target.path", "folder", Kind.TEXT, phrase="{}", words={".": "the current folder"}),
    Factor("target.policy", "write buffer", Kind.TEXT, phrase="write buffer {}"),
    Factor(
        "target.precondition",
        "state of the drive",
        Kind.SHARE,
        phrase="drive state {}",
        synonyms={"none": "0", "steady": "1"},  # `full` differs from `none`: its pages are written
    ),
    Factor("target.prepare", "preparation of the target", Kind.TEXT),
    Factor("target.size", "size of the target", Kind.SIZE, "bytes"),
    # Times: fio's options.c says in what unit it takes each of its own
    Factor("runtime", kind=Kind.DURATION, unit="s", aliases=("timeout",)),
    *_kinds(Kind.DURATION, "ramp_time steadystate_duration steadystate_ramp_time grace_time startdelay", "s"),
    *_kinds(Kind.DURATION, "sleep sample_interval", "s"),
    *_kinds(Kind.DURATION, "rate_cycle log_avg_msec log_hist_msec bwavgtime iopsavgtime", "ms"),
    *_kinds(Kind.DURATION, "thinktime thinktime_spin thinktime_iotime max_latency latency_target", "µs"),
    *_kinds(Kind.DURATION, "latency_window flow_sleep cpuchunks", "µs"),
    *_kinds(Kind.SIZE, "ba rate_min", "bytes/s"),
    *_kinds(
        Kind.SIZE,
        "write_cache mapping_cache mapping_log translation_read program_unit flash_page slc_region slc_program_unit",
        "bytes",
    ),
    # Yes or no: BOOL and STR_SET of fio's options.c, flags of the simulated drive, of file tests and of db_bench
    *_kinds(
        Kind.SWITCH,
        "allow_file_create allow_mounted_write atomic block_error_percentiles bs_is_seq_rand bs_unaligned buffered "
        "cgroup_nodelete clat_percentiles create_fsync create_on_open create_only create_serialize dedupe_global "
        "disable_bw_measurement disable_clat disable_lat disable_slat do_verify end_fsync error_dump exitall "
        "exitall_on_error experimental_verify fdp file_append fill_device fixedbufs fsync_on_close group_reporting "
        "gtod_reduce hipri ignore_zone_limits invalidate lat_percentiles latency_run log_offset log_prio "
        "log_store_compressed new_group norandommap nowait overwrite per_job_logs pre_read random_sequence_stride "
        "randrepeat rate_ignore_thinktime read_beyond_wp refill_buffers registerfiles replay_no_stall "
        "scramble_buffers serialize_overlap slat_percentiles softrandommap sprandom sqthread_poll stats stonewall "
        "thread time_based uncached unified_rw_reporting unique_filename unlink unlink_each_loop verify_dump "
        "verify_fatal verify_header_seed verify_only verify_state_load verify_state_save zero_buffers",
    ),
    *_kinds(
        Kind.SWITCH,
        "copy_back read_priority link_duplex throttle hot_cold slc_dynamic padding pad_reads compensation "
        "block_requests calibrate",
    ),
    *_kinds(Kind.SWITCH, "auto close disable_wal use_direct_reads use_direct_io_for_flush_and_compaction"),
    *_kinds(Kind.PROCESSORS, "cpus_allowed log_compression_cpus numa_cpu_nodes"),
    *_kinds(
        Kind.TEXT,
        "benchmarks buffer_pattern description directory exec_postrun exec_prerun filename filename_format hostname "
        "mem name opendir prepare program profile read_iolog stressor trace uri verify verify_pattern write_iolog",
    ),
)
CONDITIONS = ("rw", "bs", "bssplit", "rwmixwrite", "ioengine", "iodepth", "numjobs", "direct", "stressor")
"""What a figure names where the study fixes it, in this order: it decides what is measured at all."""
_BY_NAME = {name: entry for entry in FACTORS for name in (entry.name, *entry.aliases)}
CONCURRENCY = tuple(entry.name for entry in FACTORS if entry.counts in (PROCESSOR, IN_FLIGHT))
"""Factors that count what works at the same time: only over these does a law of scaling mean anything."""
LOADS = (*(entry.name for entry in FACTORS if entry.offers), *CONCURRENCY)
"""Factors that are a load: rates that are offered, then what works at the same time."""
_OPERATION = ("bs", "bssplit", "bsrange", "stressor")
_OPERATION_ENDINGS = ("-method", "-read-size", "-write-size")
"""Factors of fio and stress-ng that decide what one operation is, and ends of the names of others."""
_TEXT_ENDINGS = ("file", "path", "dir", "name")
"""Of names of options that are paths or names themselves."""


def factor(name: str) -> Factor:
    """The entry of a factor, whether dashes or underscores are in its name; a bare one where it is not listed."""
    for spelling in (name, name.replace("_", "-"), name.replace("-", "_")):
        if spelling in _BY_NAME:
            return _BY_NAME[spelling]
    return Factor(name, kind=Kind.TEXT if name.endswith(_TEXT_ENDINGS) else Kind.OPTION)


def _reads(name: str) -> Factor:
    """The entry that says how levels are read: `target.page` is read as `page` is."""
    return factor(name if name in _BY_NAME else name.rpartition(".")[2])


def level_kind(name: str) -> Kind:
    """How the levels of a factor, or the values of a parameter, are read."""
    return _reads(name).kind


def counts_concurrency(name: str) -> bool:
    """Whether the factor counts what works at the same time: workers, or requests in flight."""
    return _reads(name).counts in (PROCESSOR, IN_FLIGHT)


def loads_machine(name: str) -> bool:
    """Whether a higher level asks for more of the machine at the same time: concurrency, or a rate of requests."""
    return bool(_reads(name).counts)


def offers(name: str) -> str:
    """What a rate offers each job a second, as the last part of a metric's name; '' of all else."""
    return _reads(name).offers


def changes_operation(name: str) -> bool:
    """Whether an operation is other work at each level, so that numbers of operations do not compare."""
    return name in _OPERATION or name.endswith(_OPERATION_ENDINGS)


SERVED = 0.95
"""Share of the offered rate below which storage is saturated: what is offered then waits outside."""


def takes_processors(name: str) -> bool:
    """Whether the factor counts what takes a processor each. Requests in flight (`iodepth`) do not."""
    return _reads(name).counts == PROCESSOR


# When two levels are the same

_ABSENT = "\0"
"""Stands for no level; no level can hold it."""
_TRUTH = {"true": True, "True": True, "false": False, "False": False}
"""How a frame, TOML and Python write truth."""
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
_PERCENTAGE = re.compile(r"(-?\d+(?:\.\d+)?)\s*%")
_SEPARATORS = re.compile(r"([,:/@-])")
_UNIT_S = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@lru_cache(maxsize=2**16, typed=True)  # typed: true is not 1
def level_key(name: str, level: Scalar | None) -> str:
    """What a level means: equal for two levels of a factor that are the same, however they are spelled.

    Depends on nothing but the two, so that trials, plans and figures agree. Numbers that a frame turned into text
    have the key of the number.
    """
    if level is None:
        return _ABSENT
    entry = _reads(name)
    if isinstance(level, str):
        level = entry.synonyms.get(level, level)
        if entry.kind is not Kind.TEXT:
            level = _TRUTH.get(level, level)
    try:
        return _key(entry, level)
    except (ValueError, OverflowError):
        return _option_key(level)


def setting_key(name: str, value: Any) -> Any:
    """The same for a parameter, which may be a list or a table: equal for two that are the same."""
    if isinstance(value, Mapping):
        return {part: setting_key(part, value[part]) for part in sorted(value)}
    if isinstance(value, list | tuple):
        return [setting_key(name, part) for part in value]
    return level_key(name, value)


def same_level(name: str, level: Scalar | None, other: Scalar | None) -> bool:
    """Whether two spellings mean one level of a factor; nothing is the same as no level."""
    return None not in (level, other) and level_key(name, level) == level_key(name, other)


def distinct_levels(name: str, levels: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """The levels in their order, each in its first spelling."""
    found: dict[str, Scalar] = {}
    for level in levels:
        found.setdefault(level_key(name, level), level)
    return tuple(found.values())


def repeated_level(name: str, levels: Iterable[Scalar]) -> tuple[Scalar, Scalar] | None:
    """The first two levels that are the same; None where each is there once."""
    found: dict[str, Scalar] = {}
    for level in levels:
        key = level_key(name, level)
        if key in found:
            return found[key], level
        found[key] = level
    return None


def level_meaning(name: str, level: Scalar) -> str:
    """What a level comes to, for messages: `4096 bytes`, `1 s`, `yes`."""
    key, entry = level_key(name, level), _reads(name)
    if entry.kind is Kind.SWITCH:
        return {"0": "no", "1": "yes"}.get(key, key)
    if entry.kind is Kind.SIZE and key.isdecimal():
        return f"{key} {entry.unit}"
    return f"processors {key}" if entry.kind is Kind.PROCESSORS else key


def _number_text(number: float) -> str:
    """1 and 1.0 alike."""
    return str(int(number)) if isinstance(number, bool) or number == int(number) else repr(number)


def _key(entry: Factor, level: Scalar) -> str:
    """The key of a level of the factor's kind; ValueError or OverflowError where it is none."""
    text = str(level).strip()
    is_number = not isinstance(level, str) or _DECIMAL.fullmatch(text)
    match entry.kind:
        case Kind.TEXT:
            return _text_key(level)
        case Kind.NUMBER:
            return _number_key(level)
        case Kind.SIZE | Kind.COMPOUND:  # part by part
            return _number_key(level) if is_number else "".join(map(_part_key, _SEPARATORS.split(str(level))))
        case Kind.DURATION:
            return f"{float(level) * _UNIT_S[entry.unit] if is_number else units.parse_duration_s(text):.12g} s"
        case Kind.SHARE:
            share = _percent(text) / 100 if text.endswith("%") else _number(level)
            return f"{share:.12g}"
        case Kind.SWITCH:
            word = text.lower()
            return "1" if word in _YES else "0" if word in _NO else _number_key(level)
        case Kind.PROCESSORS:
            return units.format_processors(units.parse_processors(text))
        case Kind.POLICY:
            policy, colon, priority = text.lower().partition(":")
            return f"{policy}:{int(priority)}" if colon else policy
    return _option_key(level)


def _text_key(level: Scalar) -> str:
    return level_word(level) if isinstance(level, bool | str) else _number_text(level)


def _number_key(level: Scalar) -> str:
    if not isinstance(level, str):
        return _number_text(level)
    text = level.strip()
    return _number_text(_decimal(text)) if _DECIMAL.fullmatch(text) else str(units.parse_size(text))


def _part_key(part: str) -> str:
    try:
        return _number_key(part)
    except ValueError:
        return _option_key(part.strip())


def _option_key(level: Scalar) -> str:
    """Text is a number only as this program would write that number: `1.10`, `007` and `1e3` may be names."""
    if not isinstance(level, str):
        return _text_key(level)
    if re.match(r"0\d", level):
        return level
    with suppress(ValueError, OverflowError):
        if level in (str(number := _number(level)), _number_text(number)):
            return _number_text(_decimal(level))
    for reading, form in _FORMS.items():
        with suppress(ValueError, OverflowError):
            return form(_READINGS[reading](level))
    return level


def _decimal(text: str) -> float:
    """Whole numbers stay whole, however large."""
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


_FORMS: Mapping[str, Callable[[float], str]] = {
    "size": str,
    "duration": "{:.12g} s".format,
    "percent": lambda percent: f"{_number_text(percent)} %",
    "rate": "{:.12g}/s".format,
}
"""The key of an option by how it is read, in the order in which readings are tried."""


class LevelIndex:
    """The factors of a study with their levels: how it spells each level, and the order of its points."""

    def __init__(self, levels: Mapping[str, Iterable[Scalar]]) -> None:
        self._spelling: dict[str, dict[str, Scalar]] = {}
        for name, listed in levels.items():
            self._spelling[name] = {level_key(name, level): level for level in distinct_levels(name, listed)}
        self._rank = {
            name: {key: place for place, key in enumerate(spelling)} for name, spelling in self._spelling.items()
        }

    def key(self, point: Mapping[str, Scalar | None]) -> tuple[str, ...]:
        """Equal for points with the same level of every factor."""
        return tuple(level_key(name, point.get(name)) for name in self._spelling)

    def point(self, row: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
        """The levels of all factors as the study spells them; levels that it does not list stay as text."""
        return {name: self.level(name, row.get(name)) for name in self._spelling}

    def level(self, name: str, level: Scalar | None) -> Scalar:
        """A level as the study spells it; as text where the study does not list it."""
        found = self._spelling.get(name, {}).get(level_key(name, level))
        return str(level) if found is None else found

    def lists(self, name: str, level: Scalar | None) -> bool:
        return level_key(name, level) in self._spelling.get(name, {})

    def place(self, point: Mapping[str, Scalar | None]) -> tuple[int, ...]:
        """Sorts points in the order of the study; levels that it does not list come last."""
        return tuple(self.rank(name, point.get(name)) for name in self._spelling)

    def rank(self, name: str, level: Scalar | None) -> int:
        """Where the level stands among those of the factor, from 0; behind them where it is not listed."""
        ranks = self._rank.get(name, {})
        return ranks.get(level_key(name, level), len(ranks))

    def in_order(self, name: str, levels: Iterable[Scalar | None]) -> list[Scalar]:
        """The given levels, each once and in its last spelling, in the order of the study."""
        last = {level_key(name, level): level for level in levels if level is not None}
        return sorted(last.values(), key=lambda level: self.rank(name, level))


# The numbers behind levels


def level_number(name: str, level: Scalar | None) -> float | None:
    """The number behind a level alone: 4096.0 for '4KiB', 0.5 for '500ms', 50.0 for '50%', None for a word.

    Sizes come first, but for factors that are times: '4m' is 4 MiB, not four minutes. `level_numbers` sees the other
    levels too.
    """
    known = level_numbers(name, (level,))
    return known[0] if known else None


def level_numbers(name: str, levels: Sequence[Scalar | None]) -> list[float] | None:
    """The numbers behind the levels of one factor, all read alike; None where that is not possible."""
    reading = level_reading(name, levels)
    if reading is None:
        return None
    return [number for level in levels if (number := _read(name, reading, level)) is not None]


def level_axis_numbers(name: str, levels: Sequence[Scalar]) -> list[float] | None:
    known = level_numbers(name, levels)
    return known if known is not None and len(set(known)) == len(known) else None


def level_reading(name: str, levels: Sequence[Scalar | None]) -> str | None:
    """How all levels are read: a key of `_READINGS`, the first that fits all; None for words and for a mixture.

    ('1s', '2m') are durations, though '2m' alone is a size; ('1s', '50%') are words.
    """
    allowed = _ALLOWED.get(_reads(name).kind, tuple(_READINGS))
    fits = (key for key in allowed if levels and all(_read(name, key, level) is not None for level in levels))
    return next(fits, None)


def _read(name: str, reading: str, level: Scalar | None) -> float | None:
    if level is None or isinstance(level, bool):
        return None
    if reading == "duration" and not isinstance(level, str):
        return float(level) * _UNIT_S.get(_reads(name).unit, 1.0)
    try:
        return float(level if isinstance(level, int | float) else _READINGS[reading](level))
    except (ValueError, OverflowError):
        return None


def _number(level: Scalar) -> float:
    number = float(level)
    if not math.isfinite(number):
        raise ValueError(f"{level!r} is not a finite number")
    return number


def _percent(text: str) -> float:
    """`50%`, `12.5 %`: in percent."""
    match = _PERCENTAGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a percentage")
    return float(match[1])


def _rate(text: str) -> float:
    """`10MB/s`, `1GiB/s`, `500/s`: a second."""
    if not (bare := text.rstrip()).endswith("/s"):
        raise ValueError(f"'{text}' is not a rate")
    return float(units.parse_size(bare.removesuffix("/s")))


_READINGS: Mapping[str, Callable[[str], float]] = {
    "number": _number,
    "size": units.parse_size,
    "duration": units.parse_duration_s,
    "percent": _percent,
    "rate": _rate,
}
"""How levels are read; numbers without a unit are of every kind."""
_ALLOWED: Mapping[Kind, tuple[str, ...]] = {Kind.TEXT: (), Kind.DURATION: ("number", "duration")}


# Words for people

_UNITS = re.compile(r"^([0-9.]+)\s*((?:[kKMGTP]i?)?B(?:/s)?|[kKMGTP](?:/s)?|ns|us|ms|s|min|h|d|%)$")
_REAL_TIME = re.compile(r"^(fifo|rr):(\d+)$")


def factor_label(name: str) -> str:
    """A factor inside a sentence: `block size`; unknown options of a tool as they are typed (`--cpu-load`)."""
    if label := factor(name).label:
        return label
    head, dot, key = name.partition(".")
    if dot:  # of the target, or of how it is run
        return f"{key.replace('_', ' ')} of the {head}"
    return f"--{name}" if "-" in name else name


def axis_title(name: str) -> str:
    """What an axis over the factor is called: `Write share (%)`; a tool's own option as it is typed, `bloom_bits`."""
    label = factor_label(name)
    return (label if "_" in label else label[:1].upper() + label[1:]) + (" (%)" if is_percent(name) else "")


def step_label(name: str) -> str:
    """What a slope is given per: `job`; `unit of <name>` for factors without a word of their own."""
    return factor(name).step or f"unit of {factor_label(name)}"


def is_size(name: str) -> bool:
    return _reads(name).unit == "bytes"


def is_percent(name: str) -> bool:
    return factor(name).unit == "%"


def is_nanoseconds(name: str) -> bool:
    return factor(name).unit == "ns"


def level_word(level: object) -> str:
    """A level as a study writes it: `true`, `4k`, `50`."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def level_phrase(name: str, level: object) -> str:
    """A level inside a sentence: `4 KiB`, `8 jobs`, `with cache fence`; of unknown factors `name = level`."""
    entry = factor(name)
    if isinstance(level, bool):
        return entry.off_on[level] if entry.off_on else f"{'with' if level else 'without'} {factor_label(name)}"
    if str(level) in entry.words:
        return entry.words[str(level)]
    if name == "feed":
        return arrival_text(str(level))
    text = level_text(name, level)
    if text == "1" and entry.single:
        return entry.single
    if entry.phrase:
        return entry.phrase.replace("{}", text)
    label = factor_label(name)  # `--cpu-load ` as it is typed; `name = ` of other factors without words
    return f"{label} {text}" if label.startswith("--") else f"{label if '.' in name else name} = {text}"


def arrival_text(feed: str) -> str:
    """An arrival mode in words: `at the original time stamps`, `32 requests outstanding`."""
    name, _, rest = feed.partition(":")
    match name:
        case "closed":
            return f"{rest} requests outstanding"
        case "scaled":
            return f"time stamps times {rest}"
        case "batch":
            return f"in batches of {rest.replace('@', ' every ')}"
    return "at the original time stamps" if feed == "open" else feed


def level_text(name: str, level: object) -> str:
    """A level alone, as in a table: `4 KiB`, `50 %`, `fifo (priority 99)`, `yes`."""
    if isinstance(level, bool):
        return (factor(name).off_on or ("no", "yes"))[level]
    text = str(level)
    if policy := _REAL_TIME.match(text) if name == "run.scheduler" else None:
        return f"{policy[1]} (priority {policy[2]})"
    if is_nanoseconds(name) and isinstance(level, int | float):
        return units.format_ns(level)
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return _UNITS.sub(r"\1 \2", text)


def level_label(name: str, level: Scalar) -> str:
    """A level on an axis: sizes as those of requests are known, `4 KiB` or `1024 KiB`, and MiB only when it is several.

    Others are as `level_text` has them, names of cases as they are.
    """
    if name == CASE:
        return str(level)
    if is_size(name) and not isinstance(level, bool) and level_reading(name, (level,)) in ("number", "size"):
        size_bytes = level_number(name, level) or 0.0
        if 1024 <= size_bytes < 2 * 1024**2 and size_bytes % 1024 == 0:
            return f"{size_bytes / 1024:.0f} KiB"
        return units.format_size(size_bytes)
    return level_text(name, level)
