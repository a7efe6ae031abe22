"""The account of the control group that the trial's processes are in, and the limits that hold there.

Versions 1 and 2 are read into the same fields. Limits may be set on a group above: what is read of each resource is the
nearest group, from the processes' own up, that limits it, else their own. A group that was not made for the trial
counts its other members too (`own` is 0). The files of the root group do not exist, and neither do its fields.
Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/, Documentation/scheduler/sched-bwc.rst, cgroups(7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ioassay.host import cgroup
from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import ProcFile

FIELDS: dict[str, Field] = {
    "own": Field(GAUGE, "1 or 0", "1: the group of processor or memory was made for the trial"),
    "periods": Field(COUNTER, "periods", "of the processor limit, in which the group ran"),
    "throttled": Field(COUNTER, "periods", "of these, in which its time was used up"),
    "throttled_us": Field(COUNTER, "µs", "time that its processors waited for the next period, summed"),
    "usage_us": Field(COUNTER, "µs", "on a processor"),
    "user_us": Field(COUNTER, "µs", "of this, in user mode (version 2)"),
    "system_us": Field(COUNTER, "µs", "of this, in the kernel (version 2)"),
    "quota_us": Field(GAUGE, "µs", "of processor time that the limit allows in a period"),
    "period_us": Field(GAUGE, "µs", "length of a period"),
    "limit_bytes": Field(GAUGE, "bytes", "of memory that the limit allows"),
    "usage_bytes": Field(GAUGE, "bytes", "of memory that the group holds, page cache included"),
    "limit_hits": Field(COUNTER, "times", "that the memory limit was reached, and memory reclaimed"),
    "oom_kills": Field(COUNTER, "processes", "that were killed for the memory limit"),
    "major_faults": Field(COUNTER, "faults", "page faults that had to read"),
    "refaults": Field(COUNTER, "pages", "needed again soon after they were reclaimed"),
    "read_sectors": Field(COUNTER, "sectors of 512 bytes", "volume read from the device"),
    "write_sectors": Field(COUNTER, "sectors of 512 bytes", "volume written to it"),
    "reads": Field(COUNTER, "requests", "read from the device"),
    "writes": Field(COUNTER, "requests", "written to it"),
    "read_limit": Field(GAUGE, "bytes/s", "that may be read"),
    "write_limit": Field(GAUGE, "bytes/s", "that may be written"),
    "read_limit_iops": Field(GAUGE, "requests/s", "that may be read"),
    "write_limit_iops": Field(GAUGE, "requests/s", "that may be written"),
    "some_us": Field(COUNTER, "µs", "in which some task of the group waited for the resource (version 2)"),
}

_NO_LIMIT = 1 << 60
"""Version 1 says "no limit" with a number near 2^63, rounded down to a page."""
_SECTOR_BYTES = 512
Reader = Callable[[str], Mapping[str, float]]


class CgroupMonitor:
    """Fields `cpu.<field>`, `memory.<field>`, `<resource>.some_us`, and `<major>:<minor>.<field>` of block devices."""

    name = "cgroup"
    remedy = ""
    often_absent = True

    def __init__(self, root: Path = Path("/")) -> None:
        self.unavailable: dict[str, str] = {}
        self._root = root
        self._files: list[tuple[ProcFile, Reader]] = []
        self._own: bool | None = None

    def attach(self, pid: int) -> None:
        """Look up the groups of a held process, which stays in them."""
        folders = cgroup.groups_of(pid, self._root)
        self._own = any(cgroup.is_ours(folder) for _, folder, _ in folders.values())
        for controller, (version, folder, mount) in folders.items():
            readers = (_V1 if version == 1 else _V2).get(controller, {})
            limit = _LIMITS.get((version, controller), "")
            for name, reader in readers.items():
                self._files.append((ProcFile(_limiting(folder, mount, limit) / name), reader))
        self._files = [(file, reader) for file, reader in self._files if file.path.exists()]
        if not self._files:
            self.unavailable["cgroup"] = "not available: the processes are in the root group, which has no account"

    def read(self) -> Mapping[str, float]:
        """One reading of all files that are there."""
        reading: dict[str, float] = {}
        for file, reader in self._files:
            if text := _text(file):
                reading.update(reader(text))
        if reading:
            reading["own"] = bool(self._own)
        return reading

    def detach(self) -> None:
        """Close what is open."""
        for file, _ in self._files:
            file.close()


def _text(file: ProcFile) -> str:
    """What a file says; nothing once the group is gone."""
    try:
        return file.read().decode(errors="replace")
    except OSError:
        return ""


def _limiting(folder: Path, mount: Path, limit: str) -> Path:
    """The nearest group that limits, from `folder` up to the top of the tree; itself where none does."""
    for group in (folder, *folder.parents):
        if limit and _limited(group / limit):
            return group
        if group == mount:
            break
    return folder


def _limited(path: Path) -> bool:
    try:
        text = path.read_text()
    except OSError:
        return False
    if path.name.startswith(("blkio", "io")):
        return bool(text.strip())
    first = text.split()[0] if text.split() else "max"
    return first not in ("max", "-1") and int(first) < _NO_LIMIT


def _table(text: str, names: Mapping[str, str], prefix: str, factor: float = 1) -> dict[str, float]:
    """Lines `key value` as fields."""
    pairs = (line.split() for line in text.splitlines())
    return {f"{prefix}.{names[pair[0]]}": int(pair[1]) * factor for pair in pairs if pair and pair[0] in names}


def _named(names: Mapping[str, str], prefix: str) -> Reader:
    return lambda text: _table(text, names, prefix)


def _single(field: str, factor: float = 1) -> Reader:
    """A file that is one number; a limit that is none is no field."""

    def reader(text: str) -> Mapping[str, float]:
        word = text.split()[0]
        return {} if word in ("max", "-1") or int(word) >= _NO_LIMIT else {field: int(word) * factor}

    return reader


def _cpu_stat_v1(text: str) -> Mapping[str, float]:
    names = {"nr_periods": "periods", "nr_throttled": "throttled"}
    return _table(text, names, "cpu") | _table(text, {"throttled_time": "throttled_us"}, "cpu", 1e-3)


def _cpu_max(text: str) -> Mapping[str, float]:
    quota, _, period = text.strip().partition(" ")
    return {} if quota == "max" else {"cpu.quota_us": int(quota), "cpu.period_us": int(period)}


def _pressure(resource: str) -> Reader:
    return lambda text: {f"{resource}.some_us": int(text.splitlines()[0].rpartition("total=")[2])}


def _io_stat(text: str) -> Mapping[str, float]:
    names = {"rbytes": "read_sectors", "wbytes": "write_sectors", "rios": "reads", "wios": "writes"}
    reading = {}
    for line in text.splitlines():
        device, *pairs = line.split()
        for key, _, value in (pair.partition("=") for pair in pairs):
            if key in names:
                reading[f"{device}.{names[key]}"] = int(value) / (_SECTOR_BYTES if key.endswith("bytes") else 1)
    return reading


def _io_max(text: str) -> Mapping[str, float]:
    names = {"rbps": "read_limit", "wbps": "write_limit", "riops": "read_limit_iops", "wiops": "write_limit_iops"}
    reading = {}
    for line in text.splitlines():
        device, *pairs = line.split()
        for key, _, value in (pair.partition("=") for pair in pairs):
            if key in names and value != "max":
                reading[f"{device}.{names[key]}"] = float(value)
    return reading


def _blkio(names: Mapping[str, str], factor: float = 1) -> Reader:
    """Lines `254:0 Read 4096`."""

    def reader(text: str) -> Mapping[str, float]:
        rows = (line.split() for line in text.splitlines())
        return {f"{row[0]}.{names[row[1]]}": int(row[2]) * factor for row in rows if len(row) == 3 and row[1] in names}

    return reader


def _blkio_limit(field: str) -> Reader:
    """Lines `254:0 1048576`."""
    return lambda text: {f"{row[0]}.{field}": float(row[1]) for row in map(str.split, text.splitlines()) if row}


_MEMORY_STAT = {"pgmajfault": "major_faults", "workingset_refault": "refaults", "workingset_refault_file": "refaults"}
_V1: dict[str, dict[str, Reader]] = {
    "cpu": {
        "cpu.stat": _cpu_stat_v1,
        "cpu.cfs_quota_us": _single("cpu.quota_us"),
        "cpu.cfs_period_us": _single("cpu.period_us"),
    },
    "cpuacct": {"cpuacct.usage": _single("cpu.usage_us", 1e-3)},
    "memory": {
        "memory.limit_in_bytes": _single("memory.limit_bytes"),
        "memory.usage_in_bytes": _single("memory.usage_bytes"),
        "memory.failcnt": _single("memory.limit_hits"),
        "memory.oom_control": _named({"oom_kill": "oom_kills"}, "memory"),
        "memory.stat": _named(_MEMORY_STAT, "memory"),
    },
    "blkio": {
        "blkio.throttle.io_service_bytes": _blkio(
            {"Read": "read_sectors", "Write": "write_sectors"}, 1 / _SECTOR_BYTES
        ),
        "blkio.throttle.io_serviced": _blkio({"Read": "reads", "Write": "writes"}),
        "blkio.throttle.read_bps_device": _blkio_limit("read_limit"),
        "blkio.throttle.write_bps_device": _blkio_limit("write_limit"),
        "blkio.throttle.read_iops_device": _blkio_limit("read_limit_iops"),
        "blkio.throttle.write_iops_device": _blkio_limit("write_limit_iops"),
    },
}
_V2: dict[str, dict[str, Reader]] = {
    "cpu": {
        "cpu.stat": _named(
            {
                "usage_usec": "usage_us",
                "user_usec": "user_us",
                "system_usec": "system_us",
                "nr_periods": "periods",
                "nr_throttled": "throttled",
                "throttled_usec": "throttled_us",
            },
            "cpu",
        ),
        "cpu.max": _cpu_max,
        "cpu.pressure": _pressure("cpu"),
    },
    "memory": {
        "memory.max": _single("memory.limit_bytes"),
        "memory.current": _single("memory.usage_bytes"),
        "memory.events": _named({"max": "limit_hits", "oom_kill": "oom_kills"}, "memory"),
        "memory.stat": _named(_MEMORY_STAT, "memory"),
        "memory.pressure": _pressure("memory"),
    },
    "io": {"io.stat": _io_stat, "io.max": _io_max, "io.pressure": _pressure("io")},
}
"""Controller -> file of a group -> what it says."""
_LIMITS = {
    (1, "cpu"): "cpu.cfs_quota_us",
    (1, "memory"): "memory.limit_in_bytes",
    (2, "cpu"): "cpu.max",
    (2, "memory"): "memory.max",
    (2, "io"): "io.max",
}
"""The file that says whether a group limits. Version 1's blkio has several; those of the own group are read."""


def make(root: Path, devices: Sequence[str]) -> CgroupMonitor:
    """For `ioassay.monitors.monitor`."""
    return CgroupMonitor(root)
