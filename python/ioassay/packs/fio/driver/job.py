"""From a study's parameters to the job file that fio runs, and what makes no sense in a job.

What is written beside the parameters is in `defaults`, in the open; docs/drivers.md tells users of each.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.errors import ConditionError, IoassayError, StudyError, ToolError
from ioassay.hints import nearest
from ioassay.packs.fio.claims import fio_logs
from ioassay.packs.fio.claims.fio_logs import LATENCIES
from ioassay.packs.fio.fio_options import ELSEWHERE, PATTERNS, SPDK, SYNCHRONOUS, Section, by_name, canonical, write
from ioassay.records.record import Series, Warning_
from ioassay.roles import Load, Trial

OURS = frozenset({"logs", "log_interval"})
"""Parameters that are not fio's."""
_RESERVED = by_name("reserved")
_IN_FOLDER = "fio"
"""Name of the file that is loaded where the target is a folder."""
_NO_LOAD_BYTES = 2**30
"""Size for engines without storage, which want one all the same."""


def settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """fio's own parameters by canonical name; StudyError for one given twice or one that is not the study's to set."""
    found: dict[str, Any] = {}
    for key, value in params.items():
        if key in OURS:
            continue
        name = canonical(key)
        if name in found:
            raise StudyError(f"'{key}' and '{name}' are the same option; expected one", key=f"params.{key}")
        if name in _RESERVED:
            raise StudyError(f"'{key}' {_RESERVED[name]}", key=f"params.{key}")
        found[name] = value
    return found


def section(params: Mapping[str, Any], name: str = "") -> Section:
    """The job of one point as fio would resolve it, without its file and seed."""
    written = {option: write(option, value) for option, value in settings(params).items()}
    each = {"write_lat_log": _LOG_PREFIX} if REQUESTS in params.get("logs", ()) else {}
    return Section(name, {**defaults(written), **written, **each})


def defaults(written: Mapping[str, str]) -> dict[str, str]:
    """What the lab sets where the study does not.

    - fallocate=none: the target has made the file.
    - percentiles of all three latencies, so that JSON+ has their bins.
    - time_based: a run time that is given is the time to run, not the longest time.
    - refill_buffers, when data is written: what is written again and again would compress.
    """
    added = {"fallocate": "none", "clat_percentiles": "1", "lat_percentiles": "1", "slat_percentiles": "1"}
    if "runtime" in written:
        added["time_based"] = "1"
    job = Section("", written)
    own_content = {"zero_buffers", "buffer_pattern", "buffer_compress_percentage", "dedupe_percentage"}
    if job.writes and job.engine not in ELSEWHERE and not own_content & written.keys():
        added["refill_buffers"] = "1"
    return {name: value for name, value in added.items() if name not in written}


def emit(trial: Trial, load: Load, folder: Path = Path()) -> str:
    """The text of the job file of one trial; ToolError when the load cannot be written into one.

    `folder` is where files beside it lie (`beside`).
    """
    job = section(trial.params)
    # fio reads a signed 64-bit number.
    seed = {} if "randseed" in job.options else {"randrepeat": "0", "randseed": str(trial.seed % 2**63)}
    lines = {**job.options, **seed, **_storage(job, load, folder), **log_options(trial.params, job)}
    return "\n".join([f"[{name_of(trial)}]", *(f"{name}={value}" for name, value in lines.items())]) + "\n"


def extra_files(trial: Trial, load: Load) -> dict[str, str]:
    """Files that the job needs beside its own: name -> text.

    They say what SPDK's block layer is to connect to, and that it is not to look for partitions on it: it would read
    them first, and the drive would count these reads as the load's (`bdev_examine`).
    """
    if section(trial.params).engine != "spdk_bdev":
        return {}
    host, port, nqn = _subsystem("spdk_bdev", load)
    attach = {
        "method": "bdev_nvme_attach_controller",
        "params": {"name": _BDEV, "trtype": "TCP", "adrfam": "IPv4", "traddr": host, "trsvcid": port, "subnqn": nqn},
    }
    alone = {"method": "bdev_set_options", "params": {"bdev_auto_examine": False}}
    return {_CONFIGURATION: json.dumps({"subsystems": [{"subsystem": "bdev", "config": [alone, attach]}]}, indent=1)}


def name_of(trial: Trial) -> str:
    """The job's name. Not the study's: fio takes every section whose name starts with `global` for [global]."""
    return f"ioassay-{trial.id}"


def _storage(job: Section, load: Load, folder: Path) -> dict[str, str]:
    """What the job loads, and where of it."""
    if job.engine in SPDK:  # what the study sets of it counts
        plugin, (host, port, nqn) = _spdk_plugin(job.engine, job.plugin), _subsystem(job.engine, load)
        name = f"trtype=TCP adrfam=IPv4 traddr={host} trsvcid={port} subnqn={nqn} ns=1"
        found = {"thread": "1", "filename": name.replace(":", "\\:")}  # fio splits file names at colons
        if job.engine == "spdk_bdev":
            found |= {"spdk_json_conf": str(folder / _CONFIGURATION), "spdk_mem": _MEMORY_MIB, "filename": f"{_BDEV}n1"}
            found["env_context"] = "--no-huge --no-shconf --iova-mode=va"
        own = {name: value for name, value in found.items() if name not in job.options}
        return {"ioengine": str(plugin) if plugin else job.engine, **own, **_area(job, load.size_bytes)}
    if job.engine == "nbd" and "uri" not in job.options:
        if "nbd" not in load.addresses:
            if load.kind == "device" and not load.addresses:
                raise ConditionError("ioengine nbd reaches no drive of the kernel's")
            wanted = "kind = 'virtual', or set uri yourself"
            raise ToolError(f"ioengine nbd needs a target that is reached by NBD: {wanted}")
        return {"uri": load.addresses["nbd"], **_area(job, load.size_bytes)}
    if load.path is None:
        if job.engine not in ELSEWHERE:
            raise ToolError(f"ioengine {job.engine} needs something to load, and the target has nothing: set [target]")
        return {} if "size" in job.options else {"size": str(load.size_bytes or _NO_LOAD_BYTES)}
    area, file = _area(job, load.size_bytes), load.path
    if load.kind == "folder":
        if load.new_file is None:
            raise ToolError(f"{load.path}: is a folder in which no file can be made; expected a file or a device")
        steps = int(area.get("offset_increment", 0)) * (job.numjobs - 1)
        file = load.new_file(_IN_FOLDER, int(area.get("offset", 0)) + steps + int(area["size"]))
    return {"filename": file_name(file), **area}


def _subsystem(engine: str, load: Load) -> tuple[str, str, str]:
    """Address, port and name of the NVMe subsystem."""
    if not {"nvme_tcp", "nqn"} <= load.addresses.keys():
        if load.kind == "device" and not load.addresses:
            raise ConditionError(KERNEL_HAS_DRIVE)
        raise ToolError(f"ioengine {engine} needs a target that speaks NVMe over TCP: add 'nvme-tcp' to target.ways")
    host, _, port = load.addresses["nvme_tcp"].rpartition(":")
    return host, port, load.addresses["nqn"]


def file_name(path: Path) -> str:
    """A path as the value of `filename`; ToolError for one that fio would read as another."""
    text = str(path.absolute())
    if problem := unwritable(text):
        raise ToolError(problem)
    return text.replace(":", "\\:")


def unwritable(path: str) -> str:
    """Why fio could not read `path` back from a job file ('' when it can): it knows no quotes there."""
    if character := next((each for each in "#;$\n\r" if each in path), None):
        return f"{path!r} contains {character!r}, which fio job files cannot express; use a path without it"
    if path != path.rstrip() or not path.isprintable():
        return f"{path!r} ends with blanks or has unprintable characters, which fio job files cannot express; rename it"
    return ""


def _area(job: Section, load_bytes: int) -> dict[str, str]:
    """`offset`, `size` and the like in bytes, never past the target: fio would make its file grow."""
    given = {
        name: int(load_bytes * float(text[:-1]) / 100) if text.endswith("%") else int(text)
        for name in ("size", "io_size", "offset", "offset_increment")
        if (text := job.options.get(name, "z")) and not text.endswith("z")
    }
    start = given.get("offset", 0) + given.get("offset_increment", 0) * (job.numjobs - 1)
    size = given.setdefault("size", load_bytes - start)
    if size <= 0 or start + size > load_bytes:
        raise ToolError(
            f"the jobs would reach to {units.format_size(start + size)} of a target of "
            f"{units.format_size(load_bytes)}; lower size, offset or offset_increment"
        )
    return {name: str(value) for name, value in given.items()}


# SPDK's engines for fio: where the plugins are. A job reaches an NVMe over TCP address through them.
#
# They are no part of fio or Debian: SPDK builds them for one version of fio (`./configure --with-fio=…`, in build/fio).
# The folder is given by the environment, `IOASSAY_SPDK_FIO`, or lies where SPDK installs it. `spdk_nvme` takes huge
# pages; `spdk_bdev` is run without, so that it needs no privileges. Sources: SPDK's documentation of its fio plugins.

SPDK_VARIABLE = "IOASSAY_SPDK_FIO"
_CONFIGURATION = "spdk.json"
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


# fio's time logs, where a study wants `logs`. fio averages over `log_interval` itself, so the logs stay small and the
# load undisturbed; the last, unfinished window is not logged. Histograms over time are read again where they are shown.
# `requests` logs each request instead, for those who need latencies in their order; the distributions come from JSON+.

SERIES = ("bw", "iops", "lat", "clat", "slat")
HISTOGRAMS = "hist"
"""Completion latencies over time: one histogram an interval. They stay in the trial's raw folder."""
REQUESTS = "requests"
"""The total latency of each request. The log stays in the trial's raw folder; alone, since fio averages all or none."""
KINDS = (*SERIES, HISTOGRAMS)
_COARSENESS = 2
"""fio's log_hist_coarseness: 16 bins for each power of two instead of 64, in a quarter of the space."""
_LOG_PREFIX = "log"
_DEFAULT_INTERVAL = "100ms"
_FASTEST_MS = 10
"""Below this fio's sampling thread, which also counts bandwidth, does not keep up."""


def check_logs(params: Mapping[str, Any]) -> None:
    """StudyError when `logs` or `log_interval` cannot be."""
    asked = params.get("logs", [])
    if not isinstance(asked, list | tuple) or not (all(kind in KINDS for kind in asked) or [*asked] == [REQUESTS]):
        text = f"is {asked!r}; expected a list of {', '.join(KINDS)}, or '{REQUESTS}' alone"
        raise StudyError(text, key="params.logs")
    try:
        interval_ms = _log_interval_ms(params)
    except (ValueError, TypeError) as error:
        raise StudyError(str(error), key="params.log_interval") from None
    if interval_ms < _FASTEST_MS:
        raise StudyError(f"is {interval_ms} ms; expected {_FASTEST_MS} ms or more", key="params.log_interval")


def _log_interval_ms(params: Mapping[str, Any]) -> int:
    return round(units.parse_duration_s(params.get("log_interval", _DEFAULT_INTERVAL)) * 1e3)


def log_options(params: Mapping[str, Any], job: Section, folder: str = "") -> dict[str, str]:
    """The options that make fio write the wanted logs to `folder` (with its slash; empty: the working folder)."""
    if not (asked := set(params.get("logs", []))):
        return {}
    prefix, interval_ms = f"{folder}{_LOG_PREFIX}", str(_log_interval_ms(params))
    if REQUESTS in asked:
        return {"write_lat_log": prefix, "per_job_logs": "1"}
    latency = bool(asked.intersection(LATENCIES))
    wanted = {"bw": "bw" in asked, "lat": latency, "iops": "iops" in asked or (latency and job.numjobs > 1)}
    averaging = dict.fromkeys(("log_avg_msec", "bwavgtime", "iopsavgtime"), interval_ms)
    chosen = {f"write_{kind}_log": prefix for kind, is_wanted in wanted.items() if is_wanted}
    if HISTOGRAMS in asked:
        chosen |= {"write_hist_log": prefix, "log_hist_msec": interval_ms, "log_hist_coarseness": str(_COARSENESS)}
    return {**chosen, **averaging, "per_job_logs": "1"}


def log_series(params: Mapping[str, Any], raw: Path) -> tuple[list[Series], list[Warning_]]:
    """The series of all jobs merged and, where there are several, of each; with a warning for each missing log."""
    made: list[Series] = []
    warnings: list[Warning_] = []
    for kind in params.get("logs", []):
        try:
            logged = {HISTOGRAMS: "clat_hist", REQUESTS: "lat"}.get(kind, kind)
            if not (paths := _log_files(raw, logged)):
                raise FileNotFoundError(f"fio wrote none: {_LOG_PREFIX}_{logged}.1.log is not there")
            if kind == HISTOGRAMS:
                fio_logs.latency_windows(paths)
            else:
                weights = _log_files(raw, "iops") if kind in LATENCIES and len(paths) > 1 else []
                made += fio_logs.series_of(logged, paths, _log_interval_ms(params), weights)
        except (OSError, IoassayError, ValueError) as error:
            warnings.append(Warning_("log-unreadable", f"{kind} log: {error}", "look into the trial's raw folder"))
    return made, warnings


def _log_files(raw: Path, kind: str) -> list[Path]:
    """`log_bw.1.log`, … in the order of fio's job numbers."""
    return sorted(raw.glob(f"{_LOG_PREFIX}_{kind}.*.log"), key=lambda path: int(path.name.split(".")[-2]))


# What makes no sense in a job, said before anything runs: StudyError where it is impossible, warnings where it is odd.
# Names and spelling are the business of `fio_options`; what the kernel will refuse on this very disk is only known when
# fio tries, and then `fio_outcome` explains it.

Target = Mapping[str, Any]
_LEAST_SECTOR_BYTES = 512
_COUNTS = ("numjobs", "iodepth", "loops")
_PERCENTAGES = ("rwmixread", "rwmixwrite", "percentage_random", "buffer_compress_percentage", "dedupe_percentage")


def check(job: Section, target: Target, engines: Sequence[str] = ()) -> list[Warning_]:
    """All checks of one job. `engines` are those of the installed fio (empty: not known). Raises StudyError."""
    if engines and job.engine not in engines and "/" not in job.engine and job.engine not in SPDK:
        close = difflib.get_close_matches(job.engine, engines, 1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise _refuse("ioengine", f"this fio has no ioengine '{job.engine}'; {hint}available: {', '.join(engines)}")
    if job.pattern not in PATTERNS:
        wanted = f"expected one of {', '.join(PATTERNS)}{nearest(job.pattern, PATTERNS)}"
        raise _refuse("rw", f"'{job.pattern}' is no pattern of fio; {wanted}")
    ways = list(_check_way(job, target))
    for name in (*_COUNTS, *_PERCENTAGES):
        for text in job.options.get(name, "").split(","):
            if text and "$" not in text and not text.isdecimal():
                raise _refuse(name, f"is '{text}'; expected a whole number")
            if name in _PERCENTAGES and text.isdecimal() and int(text) > 100:
                raise _refuse(name, f"is {text} %; expected 0 to 100")
        if name in _COUNTS and job.options.get(name) == "0":
            raise _refuse(name, "is 0, so nothing would run; expected 1 or more")
    if job.flag("time_based"):
        if "runtime" not in job.options:
            raise _refuse("time_based", "needs a run time; add runtime")
        if not job.seconds("runtime"):
            what = f"is '{job.options['runtime']}', so nothing would be measured"
            raise _refuse("runtime", f"{what}; expected more than 0")
    return [*ways, *(warning for one in (_check_area, _alignment, _odd_options) for warning in one(job, target))]


def _refuse(name: str, message: str) -> StudyError:
    return StudyError(message, key=f"params.{name}")


def _check_area(job: Section, target: Target) -> Iterator[Warning_]:
    whole = target_bytes(target)
    size, offset = job.bytes("size"), job.bytes("offset") or 0
    block = max(job.block_sizes_bytes(), default=0)
    if 0 in job.block_sizes_bytes():
        raise _refuse("bs", "is 0; expected a size")
    if whole is not None and job.engine not in ELSEWHERE and (size or 0) + offset > whole:
        asked = units.format_size((size or 0) + offset)
        raise _refuse("size", f"reaches to {asked}, past the target's size of {units.format_size(whole)}")
    room = size if size is not None else None if whole is None else whole - offset
    if room is not None and block > room:
        asked, there = units.format_size(block), units.format_size(room)
        raise _refuse("bs", f"is {asked}, more than the {there} to be loaded; lower bs or raise target.size")
    if job.flag("norandommap") or not job.pattern.startswith("rand"):
        return
    if room is not None and block and not job.time_based and room % block:
        text = f"{units.format_size(room)} is not a whole number of blocks of {units.format_size(block)}"
        yield Warning_("last-block", f"{text}, so the rest is left out", "make size a multiple of bs")


def target_bytes(target: Target) -> int | None:
    """The size that the study gives its target, None where it gives none."""
    size = target.get("size")
    try:
        return units.parse_size(size) if isinstance(size, int | str) else None
    except ValueError:
        return None  # the target says what is wrong with it


def _alignment(job: Section, target: Target) -> Iterator[Warning_]:
    """Direct I/O goes in whole sectors (open(2), O_DIRECT)."""
    if not job.direct or job.engine in ELSEWHERE:
        return
    known = target.get("logical_block_bytes")
    sector = known or _LEAST_SECTOR_BYTES
    for block in job.block_sizes_bytes():
        if block % sector == 0:
            continue
        text = f"direct I/O in blocks of {block} bytes, which is not a multiple of the sector of {sector} bytes"
        remedy = f"use a multiple of {sector}, or direct = 0"
        if known:
            raise _refuse("bs", f"{text}; {remedy}")
        yield Warning_("bs-unaligned", f"{text}: it fails, or quietly goes through the page cache", remedy)


def _odd_options(job: Section, target: Target) -> Iterator[Warning_]:
    """Options without the effect that they seem to have; StudyError for those that would outlive the run."""
    for name in ("ioscheduler", "cgroup_nodelete"):
        if name in job.options:
            raise _refuse(name, "changes this machine and leaves it so after the run; remove it, and set it yourself")
    depth = job.number("iodepth", 1) if job.options.get("io_submit_mode") != "offload" else 1
    sizes = [name for name in ("bssplit", "bsrange", "bs") if name in job.options]
    commands = [name for name in ("exec_prerun", "exec_postrun") if name in job.options]
    commands += ["ioengine=exec"] if job.engine == "exec" else []
    # generic_open_file() in fio's filesetup.c leaves out the flags of jobs that trim.
    cached_trims = job.pattern.endswith("trimwrite") and job.direct and job.engine not in ELSEWHERE
    # fio 3.33 takes the time of reading back only after the last write: 8 MiB were seen in 2 ms.
    untimed = "verify" in job.options and job.number("verify_backlog", 0) > 0 and "read" not in job.directions
    holds = {
        "iodepth-ignored": depth > 1 and job.engine in SYNCHRONOUS,
        "buffered-async": depth > 1 and job.engine == "libaio" and not job.direct,
        "direct-ignored (mmap)": job.engine == "mmap" and job.direct,
        "direct-ignored (trim)": cached_trims,
        "bs-ignored": len(sizes) > 1,
        "mix-given-twice": {"rwmixread", "rwmixwrite"} <= job.options.keys(),
        "fixed-seed": "randseed" in job.options or job.flag("allrandrepeat"),
        "no-latency": job.flag("gtod_reduce"),
        "verify-rates": untimed,
        "runs-commands": commands,
        "only-of-clients": "unique_filename" in job.options,
    }
    known = {"job": job, "depth": depth, "sizes": sizes, "others": " and ".join(sizes[1:])}
    for name in (name for name, applies in holds.items() if applies):
        text, remedy = (part.format(**known, commands=", ".join(commands)) for part in _odd_words()[name].values())
        yield Warning_(name.partition(" ")[0], text, remedy)


@functools.cache
def _odd_words() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("odd_options.toml").read_text(encoding="utf-8"))


# The way to the target: the engines of the kernel load a file or a device; nbd and SPDK's bring their own transport,
# which only a virtual drive speaks. A job file's sections name their own storage and are left alone. What the target
# itself needs is its own business.

_SERVES = "target.kind = 'virtual'"
NBD_ELSEWHERE = "ioengine nbd reaches no drive of NVMeVirt: it has no NBD server"


def _check_way(job: Section, target: Target) -> Iterator[Warning_]:
    """StudyError where it does not get there; a warning where the trial will be skipped."""
    if job.engine in SPDK and (why := missing_spdk(job.engine, job.plugin)):
        yield Warning_("will-be-skipped", why)
    if job.files:
        return
    kind, elsewhere = target.get("kind", "null"), job.engine in ELSEWHERE
    way = "" if elsewhere else "fuse"  # '': it loads nothing of the study's target
    if job.engine in SPDK:
        way = "nvme-tcp"
    elif job.engine == "nbd" and "uri" not in job.options:
        way = "nbd"
    if kind == "virtual":
        ways = target.get("ways")
        by_kernel = way == "fuse" and str(target.get("form", "")).startswith(("nvme", "kernel"))  # it has the drive
        if way and not by_kernel and isinstance(ways, list | tuple) and way not in ways:
            text = (
                f"has {', '.join(map(str, ways)) or 'none'}; ioengine {job.engine} reaches a virtual drive by '{way}'"
            )
            raise StudyError(f"{text}: add it", key="target.ways")
        if way in ("nbd", "nvme-tcp") and target.get("form") == "folder":
            text = f"is 'folder', and ioengine {job.engine} would write beneath its file system"
            raise StudyError(f"{text}; expected 'file' or 'device'", key="target.form")
    elif way in ("nvme-tcp", "nbd") and kind == "nvmevirt":
        yield Warning_("will-be-skipped", KERNEL_HAS_DRIVE if way == "nvme-tcp" else NBD_ELSEWHERE)
    elif way == "nvme-tcp":
        raise _refuse("ioengine", f"{job.engine} needs a target that speaks NVMe over TCP: {_SERVES}")
    elif way == "nbd":
        raise _refuse("ioengine", f"nbd needs a target that is reached by NBD: {_SERVES}, or its uri")
    virtual = kind == "virtual"
    form = target.get("form", "file") if virtual else kind
    is_file = form in ("file", "folder") or (virtual and form == "kernel")
    if is_file and not elsewhere and job.pattern.endswith("trim"):
        use = "target.form = 'device', or ioengine = 'nbd'" if virtual else "target.kind = 'device'"
        raise _refuse("rw", f"'{job.pattern}' needs a block device: a file cannot be trimmed; use {use}")
    sized = target.get("size") is not None or job.bytes("size") is not None
    if kind == "folder" and not elsewhere and not sized:  # all that is free is no size
        raise StudyError("is missing; expected the size of the file to make in the folder", key="target.size")
