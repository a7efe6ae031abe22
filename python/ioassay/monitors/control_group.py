"""The account of the control group that the trial's processes are in, and the limits that hold there.

Versions 1 and 2 are read into the same fields. Limits may be set on a group above: what is read of each resource is the
nearest group, from the processes' own up, that limits it, else their own. A group that was not made for the trial
counts its other members too (`own` is 0). The files of the root group do not exist, and neither do its fields.
Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/, Documentation/scheduler/sched-bwc.rst, cgroups(7).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ioassay.host import cgroup
from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, ListedMonitor, ProcFile

_NO_LIMIT = 1 << 60
"""Version 1 says "no limit" with a number near 2^63, rounded down to a page."""
_UNLIMITED = ("max", "-1")
_PER_SECTOR, _PER_NS = 1 / 512, 1e-3


@dataclass(frozen=True)
class _File:
    """One file of a controller, and the field of each number in it, with a factor where its unit is another one.

    Numbers are known by the keys of their lines ('' of a number alone), or by their `places`. A line that begins with a
    device gives fields of that device: `254:0 rbytes=4096 …`, `254:0 Read 4096`, `254:0 1048576`.
    """

    version: int
    controller: str
    name: str
    keys: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    limits: bool = False
    """It says whether a group limits. Version 1's blkio has several such files; those of the own group are read."""

    def reading(self, text: str) -> dict[str, float]:
        """Its fields; a limit that is none has no field."""
        found: dict[str, float] = {}
        for line in text.splitlines():
            before, _, last = line.rpartition(" ")
            if self.places:
                device, numbers = (f"{before}.", [last]) if ":" in before else ("", line.split())
                for place, number in zip(self.places, numbers, strict=False):
                    if number in _UNLIMITED or int(number) >= _NO_LIMIT:
                        break  # what follows on the line is about the limit
                    found[device + place] = int(number)
                continue
            if "=" in last:
                scope, *words = line.split()
                device, scope = (f"{scope}.", "") if ":" in scope else ("", f"{scope} ")
                pairs = [(scope + key, value) for key, _, value in (word.partition("=") for word in words)]
            else:
                device, _, key = before.rpartition(" ")
                device, pairs = device and f"{device}.", [(key, last)]
            for key, value in pairs:
                if key in self.keys and value not in _UNLIMITED:
                    name, factor = self.keys[key]
                    found[device + name] = int(value) * factor
        return found


_MEMORY_STAT = {
    "pgmajfault": ("memory.major_faults", 1),
    "workingset_refault": ("memory.refaults", 1),
    "workingset_refault_file": ("memory.refaults", 1),
}
_CPU_STAT_V1 = {
    "nr_periods": ("cpu.periods", 1),
    "nr_throttled": ("cpu.throttled", 1),
    "throttled_time": ("cpu.throttled_us", _PER_NS),
}
_CPU_STAT_V2 = {
    "usage_usec": ("cpu.usage_us", 1),
    "user_usec": ("cpu.user_us", 1),
    "system_usec": ("cpu.system_us", 1),
    "nr_periods": ("cpu.periods", 1),
    "nr_throttled": ("cpu.throttled", 1),
    "throttled_usec": ("cpu.throttled_us", 1),
}
_IO_STAT = {
    "rbytes": ("read_sectors", _PER_SECTOR),
    "wbytes": ("write_sectors", _PER_SECTOR),
    "rios": ("reads", 1),
    "wios": ("writes", 1),
}
_IO_MAX = {
    "rbps": ("read_limit", 1),
    "wbps": ("write_limit", 1),
    "riops": ("read_limit_iops", 1),
    "wiops": ("write_limit_iops", 1),
}
_VOLUME_V1 = {"Read": ("read_sectors", _PER_SECTOR), "Write": ("write_sectors", _PER_SECTOR)}
_FILES = (
    _File(1, "cpu", "cpu.stat", _CPU_STAT_V1),
    _File(1, "cpu", "cpu.cfs_quota_us", places=("cpu.quota_us",), limits=True),
    _File(1, "cpu", "cpu.cfs_period_us", places=("cpu.period_us",)),
    _File(1, "cpuacct", "cpuacct.usage", {"": ("cpu.usage_us", _PER_NS)}),
    _File(1, "memory", "memory.limit_in_bytes", places=("memory.limit_bytes",), limits=True),
    _File(1, "memory", "memory.usage_in_bytes", places=("memory.usage_bytes",)),
    _File(1, "memory", "memory.failcnt", places=("memory.limit_hits",)),
    _File(1, "memory", "memory.oom_control", {"oom_kill": ("memory.oom_kills", 1)}),
    _File(1, "memory", "memory.stat", _MEMORY_STAT),
    _File(1, "blkio", "blkio.throttle.io_service_bytes", _VOLUME_V1),
    _File(1, "blkio", "blkio.throttle.io_serviced", {"Read": ("reads", 1), "Write": ("writes", 1)}),
    _File(1, "blkio", "blkio.throttle.read_bps_device", places=("read_limit",)),
    _File(1, "blkio", "blkio.throttle.write_bps_device", places=("write_limit",)),
    _File(1, "blkio", "blkio.throttle.read_iops_device", places=("read_limit_iops",)),
    _File(1, "blkio", "blkio.throttle.write_iops_device", places=("write_limit_iops",)),
    _File(2, "cpu", "cpu.stat", _CPU_STAT_V2),
    _File(2, "cpu", "cpu.max", places=("cpu.quota_us", "cpu.period_us"), limits=True),
    _File(2, "cpu", "cpu.pressure", {"some total": ("cpu.some_us", 1)}),
    _File(2, "memory", "memory.max", places=("memory.limit_bytes",), limits=True),
    _File(2, "memory", "memory.current", places=("memory.usage_bytes",)),
    _File(2, "memory", "memory.events", {"max": ("memory.limit_hits", 1), "oom_kill": ("memory.oom_kills", 1)}),
    _File(2, "memory", "memory.stat", _MEMORY_STAT),
    _File(2, "memory", "memory.pressure", {"some total": ("memory.some_us", 1)}),
    _File(2, "io", "io.stat", _IO_STAT),
    _File(2, "io", "io.max", _IO_MAX, limits=True),
    _File(2, "io", "io.pressure", {"some total": ("io.some_us", 1)}),
)


class CgroupMonitor(ListedMonitor):
    """Fields `cpu.<field>`, `memory.<field>`, `<resource>.some_us`, and `<major>:<minor>.<field>` of block devices."""

    name = "cgroup"
    FIELDS: ClassVar[Mapping[str, Field]] = {
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
    often_absent = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self.unavailable: dict[str, str] = {}
        self._files: list[tuple[ProcFile, _File]] = []
        self._own = False

    def attach(self, pid: int) -> None:
        """Look up the groups of a held process, which stays in them."""
        folders = cgroup.groups_of(pid, self.root)
        self._own = any(cgroup.is_ours(folder) for _, folder, _ in folders.values())
        for controller, (version, folder, mount) in folders.items():
            files = [file for file in _FILES if (file.version, file.controller) == (version, controller)]
            group = _limiting(folder, mount, files)
            self._files += [(ProcFile(group / file.name), file) for file in files if (group / file.name).exists()]
        if not self._files:
            self.unavailable["cgroup"] = "not available: the processes are in the root group, which has no account"

    def read(self) -> Mapping[str, float]:
        """One reading of all files that are there."""
        reading: dict[str, float] = {}
        for file, rule in self._files:
            with suppress(OSError):  # the group is gone
                reading |= rule.reading(file.read().decode(errors="replace"))
        if reading:
            reading["own"] = self._own
        return reading

    def detach(self) -> None:
        """Close what is open."""
        for file, _ in self._files:
            file.close()


def _limiting(folder: Path, mount: Path, files: list[_File]) -> Path:
    """The nearest group that limits, from `folder` up to the top of the tree; itself where none does."""
    limit = next((file for file in files if file.limits), None)
    for group in (folder, *folder.parents):
        with suppress(OSError):
            if limit is not None and limit.reading((group / limit.name).read_text()):
                return group
        if group == mount:
            break
    return folder
