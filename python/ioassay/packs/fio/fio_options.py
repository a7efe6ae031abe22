"""fio's options: their names and aliases, how a value from a study is written for fio, and what those of a job mean.

fio's own spelling of sizes is a trap: with its default kb_base it reads `4KiB` as 4000 bytes and `1.5k` as one byte.
Sizes therefore leave here as plain bytes and durations as whole numbers of the option's unit. Which options are sizes
and which are times is fio's options.c (the `FIO_OPT_STR_VAL*`, `FIO_OPT_RANGE` and `is_time` entries).
What makes no sense in a combination of values is the business of `job.check`.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.hints import document
from ioassay.roles import Estimate

LINE_BYTES = 8190
"""What fgets takes at once into fio's buffer (OPT_LEN_MAX, 8192), less the line's end: fio reads what lies behind it as
another line."""
_TABLES, _ENGINES = (
    tomllib.loads(Path(__file__).with_name(f"fio_{name}.toml").read_text(encoding="utf-8"))
    for name in ("options", "engines")
)


def by_name(table: str) -> dict[str, str]:
    """Name of an option -> what a table of `fio_options.toml` says of it."""
    return {name: said for said, names in _TABLES[table].items() for name in names.split()}


@functools.cache
def option_list(name: str) -> frozenset[str]:
    """The options of a list of `fio_options.toml`."""
    return frozenset(_TABLES[name].split())


ALIASES = by_name("aliases")


@functools.cache
def engines(*kinds: str) -> frozenset[str]:
    """The engines that are all of `kinds`, which `fio_engines.toml` explains."""
    return frozenset(name for name, row in _ENGINES.items() if {*kinds} <= {*row["is"].split()})


SYNCHRONOUS, DIRECTIONLESS, ELSEWHERE, SPDK = map(engines, ("synchronous", "directionless", "elsewhere", "spdk"))


class Names:
    """The option and engine names that the installed fio knows; before `learn` every name passes."""

    def __init__(self) -> None:
        self.engines: tuple[str, ...] = ()
        self._options: frozenset[str] = frozenset()
        known = {engine: row["options"] for engine, row in _ENGINES.items() if "options" in row}
        self._engine_options = {engine: frozenset(options.split()) for engine, options in known.items()}

    def learn(self, probes: Mapping[str, str]) -> None:
        """Take the output of `--enghelp` (`engines`), `--cmdhelp=all` (`options`), `--enghelp=X` (`engine:X`)."""
        self.engines = tuple(line.strip() for line in probes.get("engines", "").splitlines()[1:] if line.strip())
        self._options = frozenset(_listed(probes.get("options", "")))
        for probe, text in probes.items():
            kind, _, engine = probe.partition(":")
            if kind == "engine" and engine:
                self._engine_options[engine] = self._engine_options.get(engine, frozenset()) | set(_listed(text))

    def check(self, names: Collection[str], engines: Collection[str]) -> None:
        """StudyError (key `params.<name>`) with the nearest name for one that fio does not know, and for `client`.

        `engines` are all that the jobs use: in a job file the options of one engine may stand in [global].
        """
        for name in names:
            if name in _OF_CLIENTS:
                raise StudyError(_OF_CLIENTS_REFUSED, key=f"params.{name}")
        if not self._options:
            return  # nothing to compare with; fio itself refuses an unknown option before it does any I/O
        known = self._options.union(
            option_list("unlisted"), *(self._engine_options.get(engine, ()) for engine in engines)
        )
        if not self._engine_options.keys() >= set(engines):
            # An engine's own options are not known: only what is another engine's alone is none of its.
            others = frozenset().union(*self._engine_options.values())
            names = [name for name in names if name in others]
        for name in names:
            if name not in known:
                raise StudyError(self._unknown(name, engines, known), key=f"params.{name}")

    def _unknown(self, name: str, engines: Collection[str], known: Iterable[str]) -> str:
        for other, names in self._engine_options.items():
            if name in names:
                return f"is an option of ioengine {other}; used here: {', '.join(sorted(engines))}"
        close = difflib.get_close_matches(name, [*known, *ALIASES], 3)
        close.sort(key=lambda other: other[0] != name[0])  # the first letter is seldom the slip
        return f"no such option of fio; {f'did you mean {close[0]!r}?' if close else 'see: fio --cmdhelp=all'}"


_OF_CLIENTS = frozenset({"client", "server", "remote_config", "daemonize"})
"""Options of fio's command line, which a study might name."""
_OF_CLIENTS_REFUSED = (
    "has servers of fio make the load, which ioassay neither checks nor watches; "
    f"expected [run] hosts, such as hosts = ['host-a'], to measure there; see {document('hosts')}"
)


def _listed(help_text: str) -> Iterable[str]:
    """Names of `fio --cmdhelp=all`: lines such as `  bs                    : Block size unit`."""
    for line in help_text.splitlines():
        name, colon, _ = line.partition(":")
        if colon and name.strip():
            yield name.strip()


def canonical(name: str) -> str:
    """fio's first name of an option: `blocksize` and `block-size` style spellings become `bs`, …"""
    plain = name.strip().replace("-", "_")
    return ALIASES.get(plain, plain)


def write(name: str, value: Any) -> str:
    """The text after `name=` in a job file for a study's value; `name` is canonical. StudyError says what is wrong."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", name) is None:
        raise StudyError(f"{name[:40]!r} is no name of an option of fio", key="params")
    text = _text(name, value)
    if bad := next((each for each in text if each in ";#$" or (not each.isprintable() and each != "\t")), None):
        why = "fio reads the rest of the line as a comment" if bad in ";#" else "write the value itself"
        raise StudyError(f"{text[:80]!r} contains {bad!r}; {why}", key=f"params.{name}")
    if len(os.fsencode(f"{name}={text}")) > LINE_BYTES:
        raise StudyError(f"has more than the {LINE_BYTES} bytes that fio reads as one line", key=f"params.{name}")
    try:
        return _WRITERS.get(name, str)(text)
    except (ValueError, OverflowError) as error:
        raise StudyError(str(error), key=f"params.{name}") from None


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple) and value:
        return (":" if name in option_list("colon_lists") else ",").join(_text(name, item) for item in value)
    if isinstance(value, int | float | str):
        return str(value).strip()
    raise StudyError(f"is {value!r}; expected a number, a text or a list of them", key=f"params.{name}")


def _size(text: str) -> str:
    """A size in bytes; a percentage or a number of zones (`50%`, `4z`) stays."""
    if re.fullmatch(r"\d+(\.\d+)?%|\d+z", text):
        return text
    return str(units.parse_size(text))


def _size_each(text: str) -> str:
    """One size for all directions, or up to three for read, write and trim: `4k,16k`; an empty one is inherited."""
    if re.fullmatch(r"[^,]*\d\w*-\d.*", text):
        raise ValueError(f"'{text}' is a range; expected one size for each direction, or bsrange for a range")
    parts = text.split(",")
    if len(parts) > 3 or not text.strip(","):
        raise ValueError(f"'{text}' has {len(parts)} parts; expected one size, or one for each of read,write,trim")
    return ",".join(_size(part.strip()) if part.strip() else "" for part in parts)


def _range(text: str) -> str:
    low, dash, high = text.partition("-")
    if not dash:
        raise ValueError(f"'{text}' is not a range; expected for example 4KiB-64KiB")
    low_bytes, high_bytes = units.parse_size(low), units.parse_size(high)
    if low_bytes > high_bytes:
        raise ValueError(f"'{text}' ends before it starts")
    return f"{low_bytes}-{high_bytes}"


def _split(text: str) -> str:
    """`4k/30:16k/60:64k/10[,…write[,…trim]]`: the size before the first slash of each part, in bytes."""
    parts = re.split("([:,])", text)
    for place in range(0, len(parts), 2):
        size, slash, rest = parts[place].partition("/")
        share = rest.partition("/")[0]
        if slash and share and not (share.isdecimal() and int(share) <= 100):
            raise ValueError(f"'{parts[place]}' has the share '{share}'; expected a whole percentage such as 4KiB/30")
        parts[place] = f"{units.parse_size(size)}{slash}{rest}"
    return "".join(parts)


def _pattern(text: str) -> str:
    """`rw`: a sequential pattern may skip a size after each request (`write:16k`)."""
    base, colon, step = text.partition(":")
    if colon and not base.startswith("rand"):
        return f"{base}:{units.parse_size(step)}"
    return text


def _distribution(text: str) -> str:
    """`zoned_abs:share/size:…` carries sizes; the other distributions carry shapes."""
    kind, _, zones = text.partition(":")
    if kind != "zoned_abs":
        return text
    return f"{kind}:" + re.sub(r"(?<=/)[^:,]+", lambda size: str(units.parse_size(size[0])), zones)


def _time(unit_s: float, suffix: str) -> Callable[[str], str]:
    """Whole numbers of the option's own unit; a bare number is in that unit already, as fio has it.

    `suffix` marks microseconds where fio's option understands suffixes and the time is no whole number of units.
    """

    def convert(text: str) -> str:
        bare = re.fullmatch(r"\d+(\.\d+)?", text)
        time_us = round((float(text) * unit_s if bare else units.parse_duration_s(text)) * 1e6)
        unit_us = round(unit_s * 1e6)
        if time_us % unit_us == 0:
            return str(time_us // unit_us)
        if not suffix:
            raise ValueError(f"'{text}' is finer than fio's unit for this option, {units.format_duration(unit_s)}")
        return f"{time_us}{suffix}"

    return convert


_KINDS: dict[str, Callable[[str], str]] = {
    "sizes_by_direction": _size_each,
    "size": _size,
    "size_or_range": lambda text: _range(text) if "-" in text else _size(text),
    "ranges": lambda text: ",".join(map(_range, text.split(","))),
    "seconds": _time(1.0, "us"),
    "milliseconds": _time(1e-3, ""),
    "microseconds": _time(1e-6, ""),
    "range_of_seconds": lambda text: "-".join(_time(1.0, "us")(part.strip()) for part in text.split("-")),
    "split": _split,
    "pattern": _pattern,
    "distribution": _distribution,
}
_WRITERS = {name: _KINDS[kind] for name, kind in by_name("kinds").items()}


COMPUTED = re.compile(r"\$(?:pagesize|mb_memory|ncpus)")
"""What fio computes itself."""


def control_character(text: str) -> str | None:
    """The first character that no editor shows and that tools end a line or a word at; a tab is none."""
    return next((each for each in text if unicodedata.category(each) in ("Cc", "Zl", "Zp") and each != "\t"), None)


# One job as fio resolves it. The same questions are asked of a study's parameters and of each section of a user's job
# file. Values are texts as they stand in a job file. Where fio would compute (`$ncpus*2`) the answer is None, never a
# guess.

PATTERNS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("read", "randread"), frozenset({"read"})),
    **dict.fromkeys(("write", "randwrite"), frozenset({"write"})),
    **dict.fromkeys(("trim", "randtrim"), frozenset({"trim"})),
    **dict.fromkeys(("rw", "readwrite", "randrw"), frozenset({"read", "write"})),
    **dict.fromkeys(("trimwrite", "randtrimwrite"), frozenset({"trim", "write"})),
}
"""Directions of each `rw` pattern."""
_KILO = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TIME_S = {"us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "s": 1.0, "sec": 1.0, "": 1.0}
_TIME_S |= {"m": 60.0, "h": 3600.0, "d": 86400.0}


def fio_bytes(text: str, kb_base: int = 1024) -> int | None:
    """Bytes of a size as fio reads it (`__get_mult_bytes` in parse.c): with kb_base 1024, `4k` is 4096, `4KiB` 4000.

    None for a percentage, a number of zones or what is not a size.
    """
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text, re.I):
        return int(text, 16)
    match = re.fullmatch(r"(\d{1,19})\s*(b|(?:([kmgtp])(b|i|ib)?))?", text.strip(), re.I)
    if match is None:
        return None
    number, prefix, rest = int(match[1]), (match[3] or "").lower(), (match[4] or "").lower()
    swapped = 1000 if kb_base == 1024 else 1024
    return number * int((swapped if rest == "ib" else kb_base) ** _KILO[prefix])


def fio_seconds(text: str) -> float | None:
    """Seconds of a duration as fio reads it (`__get_mult_time` in parse.c); None when it is none."""
    match = re.fullmatch(r"(\d{1,19})\s*([a-z]*)", text.strip(), re.I)
    unit_s = _TIME_S.get(match[2].lower()) if match else None
    return int(match[1]) * unit_s if match and unit_s else None


@dataclass(frozen=True)
class FileOption:
    """A `filename` or an `opendir`, with the `directory` in force where fio meets it."""

    name: str
    value: str
    directory: str


@dataclass(frozen=True)
class Section:
    """One job: `options` by canonical name in the order that fio meets them, [global] ones included."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[FileOption] = ()
    """Every `filename` and `opendir` met: fio opens those of [global] and those of the job."""

    @property
    def title(self) -> str:
        """What fio calls the job in its results."""
        return self.options.get("name", self.name)

    def flag(self, name: str) -> bool:
        """Whether a boolean option is on; a bare name without a value is on."""
        return self.options.get(name, "0") not in ("0", "false", "no")

    def number(self, name: str, default: int) -> int:
        """A whole number; `default` where it is absent or computed by fio."""
        text = self.options.get(name, "")
        return int(text) if re.fullmatch(r"\d{1,19}", text) else default

    def bytes(self, name: str) -> int | None:
        """A size in bytes, None when absent, relative or computed."""
        return fio_bytes(self.options[name], self.kb_base) if name in self.options else None

    def seconds(self, name: str) -> float:
        """A duration, 0 where it is absent."""
        return fio_seconds(self.options.get(name, "0")) or 0.0

    @property
    def kb_base(self) -> int:
        """1024 (fio's default, prefixes swapped) or 1000."""
        return self.number("kb_base", 1024)

    @property
    def engine(self) -> str:
        """The I/O engine; fio's default is psync. A plugin of SPDK's that is named by its path counts by its name."""
        text = self.options.get("ioengine", "psync").removeprefix("external:")
        name = text.rpartition("/")[2]
        return name if name in SPDK else text

    @property
    def plugin(self) -> str:
        """The path of an engine of SPDK's, where the job gives it; else ''."""
        text = self.options.get("ioengine", "").removeprefix("external:")
        return text if "/" in text and self.engine in SPDK else ""

    @property
    def pattern(self) -> str:
        """`rw` without its step; fio's default is read."""
        return self.options.get("rw", "read").partition(":")[0]

    @property
    def numjobs(self) -> int:
        """How many times the job is cloned."""
        return max(self.number("numjobs", 1), 1)

    @property
    def direct(self) -> bool:
        """O_DIRECT: the last of `direct` and its opposite `buffered` counts."""
        name = next((name for name in reversed(list(self.options)) if name in ("direct", "buffered")), "atomic")
        return self.flag(name) == (name != "buffered")

    @property
    def write_share(self) -> float:
        """Share of writes in a mixed pattern, from 0 to 1: the last of rwmixread and rwmixwrite counts."""
        name = next((name for name in reversed(list(self.options)) if name in ("rwmixread", "rwmixwrite")), "")
        share = self.number(name, 50) / 100
        return 1 - share if name == "rwmixread" else share

    @property
    def directions(self) -> frozenset[str]:
        """What is asked for: a mixed pattern with a share of 0 % asks for one direction only, a replay for any."""
        if self.engine in DIRECTIONLESS or self.flag("create_only") or "read_iolog" in self.options:
            return frozenset()
        asked = PATTERNS.get(self.pattern, frozenset())
        if asked == {"read", "write"}:
            idle = {0.0: "write", 1.0: "read"}.get(self.write_share)
            return asked - {idle} if idle else asked
        return asked

    @property
    def polled(self) -> bool:
        """Whether completions are polled for, which takes a path that can (`hipri`; IORING_SETUP_IOPOLL)."""
        return self.engine in ("io_uring", "io_uring_cmd", "pvsync2") and self.flag("hipri")

    @property
    def writes(self) -> bool:
        """Whether data may be changed: by the pattern, or by an option that writes, trims or deletes."""
        changing = ("unlink", "unlink_each_loop", "file_append", "fill_device")
        return (
            PATTERNS.get(self.pattern) != frozenset({"read"})
            or self.engine in engines("changing")
            or any(self.flag(name) for name in changing)
            or self.number("trim_percentage", 0) > 0
        )

    @property
    def time_based(self) -> bool:
        """Whether the job runs for its whole run time."""
        return self.flag("time_based") and self.seconds("runtime") > 0

    @property
    def must_run_s(self) -> float | None:
        """The run time that a proper result shows; None when something else may end the job."""
        ends_early = self.options.keys() & option_list("stops_early")
        known = self.time_based and self.engine not in DIRECTIONLESS and not ends_early
        return self.seconds("runtime") if known else None

    def block_sizes_bytes(self) -> list[int]:
        """Every request size that is named; of a range its two ends."""
        text = self.options.get("bssplit") or self.options.get("bsrange") or self.options.get("bs", "4096")
        sizes = [fio_bytes(part.partition("/")[0], self.kb_base) for part in re.split(r"[,:-]", text) if part]
        return [size for size in sizes if size is not None]

    def describe(self) -> str:
        """The job in a few words: `randread 4 KiB, libaio, depth 32, 4 jobs`."""
        sizes = "/".join(units.format_size(size) for size in dict.fromkeys(self.block_sizes_bytes()))
        depth, jobs = self.number("iodepth", 1), self.numjobs
        words = [f"{self.pattern} {sizes}", self.engine, f"depth {depth}" if depth > 1 else ""]
        return ", ".join(filter(None, [*words, f"{jobs} jobs" if jobs > 1 else ""]))


# What a trial is expected to cost: seconds, bytes written, and when to give up waiting. Rough on purpose: of a slow
# disk where a limit is needed (the timeout), of a common one where a guess is.

_COMMON_BYTES_PER_S = 200e6
_SLOW_BYTES_PER_S = 1e6
"""A hard disk with small random requests."""
_FIO_ITSELF_S = 0.25
_MARGIN_S = 60.0
_AVERAGED = {"write_bw_log": 1, "write_iops_log": 1, "write_lat_log": 3}
"""Lines of a request in each log: write_lat_log makes three."""
_LOGS = {**_AVERAGED, "write_iolog": 1}
_LOG_LINE_BYTES = 40
"""Such as `59873, 1234567, 1, 4096, 1073741824, 0`."""
SERVED_S = 0.3
"""A virtual drive is started for each trial, and ended."""


def cost(stages: Sequence[Sequence[Section]], loaded_bytes: int | None) -> Estimate:
    """Cost of jobs that run in `stages`, one after the other; `loaded_bytes` is the size of their target if known."""
    written: list[int | None] = []
    logged_bytes = 0
    for job in (job for stage in stages for job in stage):
        volume = None if job.time_based else _volume_bytes(job, loaded_bytes)
        if job.writes and job.engine not in ELSEWHERE and "write" in job.directions:
            share = job.write_share if "read" in job.directions else 1.0
            written.append(None if volume is None else round(volume * share))
        # Logs of single requests; not where fio averages over a window.
        averaged = _AVERAGED if job.number("log_avg_msec", 0) > 0 else ()
        if volume is not None and (smallest := min(job.block_sizes_bytes(), default=0)):
            lines = sum(each for name, each in _LOGS.items() if name in job.options and name not in averaged)
            logged_bytes += volume // smallest * lines * _LOG_LINE_BYTES
    whole = None if None in written else sum(volume or 0 for volume in written)
    seconds = _staged_s(stages, loaded_bytes, _COMMON_BYTES_PER_S)
    return Estimate(seconds + _FIO_ITSELF_S, whole, recorded_bytes=logged_bytes)


def timeout_s(stages: Sequence[Sequence[Section]], loaded_bytes: int | None) -> float:
    """When a trial is taken to hang: twice its time on a slow disk, and a minute."""
    return 2 * _staged_s(stages, loaded_bytes, _SLOW_BYTES_PER_S) + _MARGIN_S


def _staged_s(stages: Sequence[Sequence[Section]], loaded_bytes: int | None, bytes_per_s: float) -> float:
    """The longest job of each stage, added up."""

    def seconds(job: Section) -> float:
        waiting_s, runtime_s = job.seconds("startdelay") + job.seconds("ramp_time"), job.seconds("runtime")
        if job.time_based:
            return waiting_s + runtime_s * max(job.number("loops", 1), 1)
        if (volume := _volume_bytes(job, loaded_bytes)) is None:
            return waiting_s + runtime_s
        moving_s = volume / (bytes_per_s * (10 if job.engine in ELSEWHERE else 1))
        return waiting_s + (min(moving_s, runtime_s) if runtime_s else moving_s)

    return sum(max(map(seconds, stage), default=0.0) for stage in stages)


def _volume_bytes(job: Section, loaded_bytes: int | None) -> int | None:
    """What all clones of a job move when nothing but their size ends them."""
    size = job.bytes("io_size") or job.bytes("size") or loaded_bytes
    return None if size is None else size * job.numjobs * max(job.number("loops", 1), 1)
