"""fio's options: their names and aliases, and how a value from a study is written for fio.

fio's own spelling of sizes is a trap: with its default kb_base it reads `4KiB` as 4000 bytes and `1.5k` as one byte.
Sizes therefore leave here as plain bytes and durations as whole numbers of the option's unit. Which options are sizes
and which are times is fio's options.c (the `FIO_OPT_STR_VAL*`, `FIO_OPT_RANGE` and `is_time` entries).
What a combination of values means is `check`'s business.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.hints import document
from ioassay.pack import words

LINE_BYTES = 8190
"""What fgets takes at once into fio's buffer (OPT_LEN_MAX, 8192), less the line's end: fio reads what lies behind it as
another line."""
ALIASES: dict[str, str] = dict(
    pair.split("=")
    for pair in words(
        "blockalign=ba blocksize=bs blocksize_range=bsrange blocksize_unaligned=bs_unaligned "
        "disable_bw=disable_bw_measurement fileoffset=offset fill_fs=fill_device hugepage_size=hugepage-size "
        "io_limit=io_size iodepth_batch_complete=iodepth_batch_complete_min "
        "iodepth_batch_submit=iodepth_batch iomem=mem mem_align=iomem_align nr_files=nrfiles "
        "ratecycle=rate_cycle ratemin=rate_min readwrite=rw single_instance=single-instance ss=steadystate "
        "ss_dur=steadystate_duration ss_ramp=steadystate_ramp_time timeout=runtime "
        "wait_for_previous=stonewall"
    )
)

_UNLISTED = frozenset(
    words(
        "bs_is_seq_rand iomem_align softrandommap verify_async_cpus percentage_sequential verifysort verifysort_nr "
        "flow_watermark"
    )
)
"""Options that fio 3.33 takes but leaves out of `--cmdhelp=all`."""

_PRIORITY = "cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit"
_SOCKET = "hostname port protocol nodelay listen pingpong interface ttl window_size mss"
_URING = f"hipri {_PRIORITY} fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored uncached nowait "
_ENGINE_OPTIONS: dict[str, str] = {
    "cpuio": "cpuload cpuchunks cpumode exit_on_io_done",
    "e4defrag": "donorname inplace",
    "exec": "program arguments grace_time std_redirect",
    "filestat": "stat_type",
    "gfapi": "volume brick single-instance",
    "gfapi_async": "volume brick single-instance",
    "io_uring": _URING + "force_async cmd_type",
    "io_uring_cmd": _URING + "force_async cmd_type",
    "libaio": f"userspace_reap {_PRIORITY} nowait",
    "mmap": "thp",
    "mtd": "skip_bad",
    "nbd": "uri",
    "net": _SOCKET,
    "netsplice": _SOCKET,
    "pvsync2": "hipri hipri_percentage uncached nowait",
    "rados": "clustername pool clientname conf busy_poll touch_objects",
    "rbd": "clustername rbdname pool clientname busy_poll",
    "rdma": "hostname bindname port verb",
    "sg": "hipri readfua writefua sg_write_mode stream_id",
    **dict.fromkeys(
        words(
            "sync psync vsync pvsync null ftruncate filecreate filedelete posixaio falloc splice pmemblk dev-dax "
            "libpmem"
        ),
        "",
    ),
}
"""What `fio --enghelp=ENGINE` of 3.33 lists; newer versions' additions come from the probes."""


class Names:
    """The option and engine names that the installed fio knows; before `learn` every name passes."""

    def __init__(self) -> None:
        self.engines: tuple[str, ...] = ()
        self._options: frozenset[str] = frozenset()
        self._engine_options = {engine: frozenset(names.split()) for engine, names in _ENGINE_OPTIONS.items()}

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
        known = self._options.union(_UNLISTED, *(self._engine_options.get(engine, ()) for engine in engines))
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
        return (":" if name in _COLON_LISTS else ",").join(_text(name, item) for item in value)
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
    return ",".join(":".join(_split_part(part) for part in each.split(":")) for each in text.split(","))


def _split_part(part: str) -> str:
    size, slash, rest = part.partition("/")
    share = rest.partition("/")[0]
    if slash and share and not (share.isdecimal() and int(share) <= 100):
        raise ValueError(f"'{part}' has the share '{share}'; expected a whole percentage such as 4KiB/30")
    return f"{units.parse_size(size)}{slash}{rest}"


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


_COLON_LISTS = {"percentile_list", "file_service_type", "ignore_error"}
_WRITERS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("bs", "ba", "rate", "rate_min"), _size_each),
    **dict.fromkeys(
        words(
            "size io_size offset offset_increment offset_align zonesize zonecapacity zonerange zoneskip lockmem "
            "log_compression hugepage-size replay_align verify_interval verify_offset buffer_compress_chunk "
            "window_size iomem_align"
        ),
        _size,
    ),
    **dict.fromkeys(
        ("runtime", "ramp_time", "steadystate_duration", "steadystate_ramp_time", "grace_time"), _time(1.0, "us")
    ),
    **dict.fromkeys(
        words(
            "thinktime thinktime_spin thinktime_iotime max_latency latency_target latency_window flow_sleep cpuchunks"
        ),
        _time(1e-6, ""),
    ),
    **dict.fromkeys(("rate_cycle", "log_avg_msec", "log_hist_msec", "bwavgtime", "iopsavgtime"), _time(1e-3, "")),
    "filesize": lambda text: _range(text) if "-" in text else _size(text),
    "bsrange": lambda text: ",".join(map(_range, text.split(","))),
    "bssplit": _split,
    "cmdprio_bssplit": _split,
    "rw": _pattern,
    "random_distribution": _distribution,
    "startdelay": lambda text: "-".join(_time(1.0, "us")(part.strip()) for part in text.split("-")),
}


COMPUTED = re.compile(r"\$(?:pagesize|mb_memory|ncpus)")


def computed(value: str) -> bool:
    """Whether fio computes this itself ($ncpus and the like)."""
    return COMPUTED.search(value) is not None


def control_character(text: str) -> str | None:
    """The first character that no editor shows and that tools end a line or a word at; a tab is none."""
    return next((each for each in text if unicodedata.category(each) in ("Cc", "Zl", "Zp") and each != "\t"), None)
