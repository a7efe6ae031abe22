"""One fio job as fio resolves it: its options by canonical name, and what they mean for planning and judging.

The same questions are asked of a study's parameters and of each section of a user's job file. Values are texts as
they stand in a job file. Where fio would compute (`$ncpus*2`) the answer is None, never a guess.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ioassay import units
from ioassay.pack import words
from ioassay.roles import Estimate

SYNCHRONOUS = frozenset(
    words(
        "sync psync vsync pvsync pvsync2 mmap splice falloc ftruncate filecreate filestat filedelete e4defrag mtd "
        "pmemblk libpmem dev-dax"
    )
)
"""Engines that wait for each request, so that iodepth does nothing (FIO_SYNCIO in fio's engines/)."""
DIRECTIONLESS = frozenset({"cpuio", "exec"})
"""Engines that do no I/O at all."""
SPDK = frozenset({"spdk_nvme", "spdk_bdev"})
"""Engines that are plugins of SPDK's and no part of fio."""
ELSEWHERE = DIRECTIONLESS | SPDK | frozenset(words("null net netsplice rdma rados rbd gfapi gfapi_async nbd http"))
"""Engines that load no local file or device."""
CHANGES_FILES = frozenset(words("falloc ftruncate filecreate filedelete e4defrag"))
"""Engines that change files whatever `rw` says."""
PATTERNS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("read", "randread"), frozenset({"read"})),
    **dict.fromkeys(("write", "randwrite"), frozenset({"write"})),
    **dict.fromkeys(("trim", "randtrim"), frozenset({"trim"})),
    **dict.fromkeys(("rw", "readwrite", "randrw"), frozenset({"read", "write"})),
    **dict.fromkeys(("trimwrite", "randtrimwrite"), frozenset({"trim", "write"})),
}
"""Directions of each `rw` pattern."""
_STOPS_EARLY = words(
    "io_size number_ios exitall exitall_on_error exit_what steadystate fill_device latency_target create_only "
    "read_iolog"
)
"""Options that may end a job before its run time."""
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
            or self.engine in CHANGES_FILES
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
        if not self.time_based or self.engine in DIRECTIONLESS or any(name in self.options for name in _STOPS_EARLY):
            return None
        return self.seconds("runtime")

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
NO_COST = Estimate(0.0, 0)
"""Of a trial that is skipped before anything is started."""


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


# SPDK's engines for fio: where the plugins are, and how a job reaches an NVMe over TCP address through them.
#
# They are no part of fio or Debian: SPDK builds them for one version of fio (`./configure --with-fio=…`, in build/fio).
# The folder is given by the environment, `IOASSAY_SPDK_FIO`, or lies where SPDK installs it. `spdk_nvme` takes huge
# pages; `spdk_bdev` is run without, so that it needs no privileges. Sources: SPDK's documentation of its fio plugins.

SPDK_VARIABLE = "IOASSAY_SPDK_FIO"
SPDK_CONFIGURATION = "spdk.json"
_PLACES = ("/usr/local/lib/spdk/fio", "/usr/lib/spdk/fio", "/opt/spdk/build/fio")
_HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
_MEMORY_MIB = "1024"
_BDEV = "Virtual0"
KERNEL_HAS_DRIVE = (
    "SPDK would take a drive from the kernel (vfio-pci or uio), which ioassay does not do: it runs SPDK on a virtual "
    "drive only"
)
"""Why it does not run on a device."""


def _spdk_plugin(engine: str, given: str) -> Path | None:
    """The plugin's file; None where there is none. `given` is the path that a study gives, which counts alone."""
    folders = [os.environ[SPDK_VARIABLE]] if os.environ.get(SPDK_VARIABLE) else _PLACES
    found = [Path(given).absolute()] if given else [Path(folder).absolute() / engine for folder in folders]
    return next((path for path in found if path.is_file()), None)


def missing_spdk(engine: str, given: str = "") -> str:
    """Why the engine cannot run here, with the remedy; '' where it can."""
    if _spdk_plugin(engine, given) is None:
        place = f"in {os.environ.get(SPDK_VARIABLE) or ', '.join(_PLACES)}"
        return (
            f"SPDK's fio plugin '{engine}' is not {given or place}: build SPDK with ./configure --with-fio=<fio's "
            f"sources, of the installed version>, and set {SPDK_VARIABLE}=<spdk>/build/fio"
        )
    try:
        huge_pages = int(_HUGE_PAGES.read_text())
    except (OSError, ValueError):
        huge_pages = 0
    if engine == "spdk_nvme" and not huge_pages:
        return "spdk_nvme needs huge pages and there are none: sysctl vm.nr_hugepages=512, or ioengine = 'spdk_bdev'"
    return ""


def spdk_lines(engine: str, address: str, nqn: str, folder: Path, given: str = "") -> dict[str, str]:
    """What a job is told so that it reaches the subsystem `nqn` at `address` (`127.0.0.1:4420`)."""
    found = _spdk_plugin(engine, given)
    lines = {"ioengine": str(found) if found else engine, "thread": "1"}
    if engine == "spdk_nvme":
        host, _, port = address.rpartition(":")
        name = f"trtype=TCP adrfam=IPv4 traddr={host} trsvcid={port} subnqn={nqn} ns=1"
        return {**lines, "filename": name.replace(":", "\\:")}  # fio splits file names at colons
    return {
        **lines,
        "spdk_json_conf": str(folder / SPDK_CONFIGURATION),
        "spdk_mem": _MEMORY_MIB,
        "env_context": "--no-huge --no-shconf --iova-mode=va",
        "filename": f"{_BDEV}n1",
    }


def spdk_configuration(address: str, nqn: str) -> str:
    """What SPDK's block layer is to connect to, and that it is not to look for partitions on it.

    It would read them first, and the drive would count these reads as the load's (`bdev_examine`).
    """
    host, _, port = address.rpartition(":")
    attach = {
        "method": "bdev_nvme_attach_controller",
        "params": {"name": _BDEV, "trtype": "TCP", "adrfam": "IPv4", "traddr": host, "trsvcid": port, "subnqn": nqn},
    }
    alone = {"method": "bdev_set_options", "params": {"bdev_auto_examine": False}}
    return json.dumps({"subsystems": [{"subsystem": "bdev", "config": [alone, attach]}]}, indent=1)
