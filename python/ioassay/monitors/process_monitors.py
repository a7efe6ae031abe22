"""Monitors of the trial's own processes, from their first instruction on: events, waiting, and their control group.

What this machine lacks is in `unavailable` and has no value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from ioassay.host import cgroup, perf_events
from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, ProcFile

MOST_TASKS = 256
"""Tasks that are followed at once: each is an open file and 2 µs a reading."""
MOST_PROGRAMS = 16
"""Programs that are told apart by name; what others do is in the sums."""


@dataclass(eq=False)
class _OfProcesses:
    """What these monitors have alike. None is surprised by a machine that lacks what it reads."""

    root: Path = Path("/")
    unavailable: dict[str, str] = field(default_factory=dict, init=False)
    often_absent: ClassVar[bool] = True

    @classmethod
    def make(cls, root: Path, devices: Sequence[str]) -> Self:
        return cls(root)


@dataclass(eq=False)
class PerfMonitor(_OfProcesses):
    """Kernel and hardware events by perf_event_open(2): exact counts, of short-lived processes too.

    Fields `<event>.<field>`. Hardware events also say for which time they were wanted and for which they had a counter:
    an analysis scales by the ratio. The kernel's own are always counted.
    """

    name = "perf"
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "count": Field(COUNTER, "events", "counted so far; of `task_clock` nanoseconds on a processor"),
        "enabled_ns": Field(COUNTER, "ns", "time that the event was to be counted, over all tasks"),
        "running_ns": Field(COUNTER, "ns", "time in which a hardware counter was free for it, over all tasks"),
    }

    _counters: dict[perf_events.Event, int] = field(default_factory=dict, init=False)

    def attach(self, pid: int) -> None:
        """Open every event that there is on a process that is held before its program."""
        for event in perf_events.EVENTS:
            counter = perf_events.open_counter(event, pid, on_exec=True)
            if isinstance(counter, str):
                self.unavailable[event.name] = f"not available: {counter}"
            else:
                self._counters[event] = counter

    def read(self) -> Mapping[str, float]:
        reading: dict[str, float] = {}
        for event, counter in self._counters.items():
            count, *times_ns = perf_events.read(counter)
            reading[f"{event.name}.count"] = count
            if event.kind == perf_events.HARDWARE:  # it may be counted for a part of the time only
                reading[f"{event.name}.enabled_ns"], reading[f"{event.name}.running_ns"] = times_ns
        return reading

    def detach(self) -> None:
        while self._counters:
            os.close(self._counters.popitem()[1])


@dataclass
class _Task:
    """One task: its open file, what it read last, and its program's name, which is final at the second reading."""

    file: ProcFile
    program: str = ""
    readings: int = 0
    times: tuple[int, int, int] = (0, 0, 0)
    """Run and wait in nanoseconds, and slices."""


@dataclass(eq=False)
class SchedstatMonitor(_OfProcesses):
    """How long tasks ran and waited for a processor, from /proc/<pid>/task/<tid>/schedstat.

    Fields as in FIELDS for the tree, and `<program>.run_ns`, `<program>.wait_ns`. The kernel keeps both for each task
    (Documentation/scheduler/sched-stats.rst). A task that has ended keeps its last reading, so the sums only grow; what
    it did after that reading is not in them, and a task that lived between two readings is not seen. Exact counts of
    the whole tree, without the waiting, are `perf`'s.
    """

    name = "schedstat"
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "run_ns": Field(COUNTER, "ns", "on a processor, of all tasks and of each program's"),
        "wait_ns": Field(COUNTER, "ns", "ready to run and waiting for a processor"),
        "slices": Field(COUNTER, "times", "how often a task was given a processor"),
        "tasks": Field(GAUGE, "tasks", "processes and threads that live"),
        "unread": Field(GAUGE, "tasks", "of these, not read, since there were more than are followed"),
    }
    remedy = "use a kernel with CONFIG_SCHED_INFO"

    _pid: int = field(default=0, init=False)
    _tasks: dict[tuple[int, int], _Task] = field(default_factory=dict, init=False)
    _ended: dict[str, tuple[int, int, int]] = field(default_factory=dict, init=False)
    """Program -> run, wait and slices of its tasks that have ended."""
    _programs: dict[str, None] = field(default_factory=dict, init=False)

    def attach(self, pid: int) -> None:
        """Follow this process, its threads and all that they start."""
        self._pid = pid
        if not (self.root / f"proc/{pid}/schedstat").exists():
            self.unavailable["schedstat"] = "not available: the kernel keeps no such account (CONFIG_SCHED_INFO)"
            self._pid = 0

    def read(self) -> Mapping[str, float]:
        """One reading of every task that lives, added to those that have ended."""
        if not self._pid:
            return {}
        alive = list(self._living(self._pid))
        for key in self._tasks.keys() - set(alive):
            task = self._tasks.pop(key)
            task.file.close()
            _add(self._ended, task.program, task)
        for key in alive:
            if key in self._tasks or len(self._tasks) < MOST_TASKS:
                self._follow(key)
        sums = dict(self._ended)
        for task in self._tasks.values():
            _add(sums, task.program if task.readings > 1 else "", task)
        run_ns, wait_ns, slices = (sum(values[place] for values in sums.values()) for place in range(3))
        reading: dict[str, float] = {"run_ns": run_ns, "wait_ns": wait_ns, "slices": slices}
        reading |= {"tasks": len(alive), "unread": sum(key not in self._tasks for key in alive)}
        self._programs |= dict.fromkeys(program for program in sums if program)
        for program in list(self._programs)[:MOST_PROGRAMS]:
            reading[f"{program}.run_ns"], reading[f"{program}.wait_ns"] = sums[program][:2]
        return reading

    def detach(self) -> None:
        for task in self._tasks.values():
            task.file.close()
        self._tasks.clear()

    def _living(self, pid: int) -> Iterator[tuple[int, int]]:
        """Process and thread of every task of the tree, as far as its parents live."""
        waiting = [pid]
        while waiting:
            process = waiting.pop()
            with suppress(OSError, ValueError):
                for name in os.listdir(self.root / f"proc/{process}/task"):
                    yield process, int(name)
                    with suppress(OSError, ValueError):
                        text = (self.root / f"proc/{process}/task/{name}/children").read_bytes()
                        waiting += map(int, text.split())

    def _follow(self, key: tuple[int, int]) -> None:
        folder = self.root / f"proc/{key[0]}/task/{key[1]}"
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = _Task(ProcFile(folder / "schedstat"))
        with suppress(OSError, ValueError):
            # `run wait slices`, in nanoseconds; a task that has ended is no more in its file (ESRCH).
            run_ns, wait_ns, slices = map(int, task.file.read().split()[:3])
            task.times = run_ns, wait_ns, slices
        if task.readings < 2:  # its first name is its parent's, until it becomes its own program
            with suppress(OSError):
                text = (folder / "comm").read_text(errors="replace")
                task.program = re.sub(r"[^\w-]", "_", text.strip()) or "unnamed"
        task.readings += 1


def _add(sums: dict[str, tuple[int, int, int]], program: str, task: _Task) -> None:
    (run_ns, wait_ns, slices), more = sums.get(program, (0, 0, 0)), task.times
    sums[program] = run_ns + more[0], wait_ns + more[1], slices + more[2]


# The account of the control group that the trial's processes are in, and the limits that hold there. Versions 1 and 2
# are read into the same fields. Limits may be set on a group above: what is read of each resource is the nearest group,
# from the processes' own up, that limits it, else their own. A group that was not made for the trial counts its other
# members too (`own` is 0). The files of the root group do not exist, and neither do its fields. Sources:
# Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/, Documentation/scheduler/sched-bwc.rst, cgroups(7)

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


_CPU_STAT = {
    "usage_usec": ("cpu.usage_us", 1),
    "user_usec": ("cpu.user_us", 1),
    "system_usec": ("cpu.system_us", 1),
    "nr_periods": ("cpu.periods", 1),
    "nr_throttled": ("cpu.throttled", 1),
    "throttled_usec": ("cpu.throttled_us", 1),
    "throttled_time": ("cpu.throttled_us", _PER_NS),
}
_MEMORY_STAT = {
    "pgmajfault": ("memory.major_faults", 1),
    "workingset_refault": ("memory.refaults", 1),
    "workingset_refault_file": ("memory.refaults", 1),
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
_FILES = (
    _File(1, "cpu", "cpu.stat", _CPU_STAT),
    _File(1, "cpu", "cpu.cfs_quota_us", places=("cpu.quota_us",), limits=True),
    _File(1, "cpu", "cpu.cfs_period_us", places=("cpu.period_us",)),
    _File(1, "cpuacct", "cpuacct.usage", {"": ("cpu.usage_us", _PER_NS)}),
    _File(1, "memory", "memory.limit_in_bytes", places=("memory.limit_bytes",), limits=True),
    _File(1, "memory", "memory.usage_in_bytes", places=("memory.usage_bytes",)),
    _File(1, "memory", "memory.failcnt", places=("memory.limit_hits",)),
    _File(1, "memory", "memory.oom_control", {"oom_kill": ("memory.oom_kills", 1)}),
    _File(1, "memory", "memory.stat", _MEMORY_STAT),
    _File(
        1,
        "blkio",
        "blkio.throttle.io_service_bytes",
        {"Read": ("read_sectors", _PER_SECTOR), "Write": ("write_sectors", _PER_SECTOR)},
    ),
    _File(1, "blkio", "blkio.throttle.io_serviced", {"Read": ("reads", 1), "Write": ("writes", 1)}),
    _File(1, "blkio", "blkio.throttle.read_bps_device", places=("read_limit",)),
    _File(1, "blkio", "blkio.throttle.write_bps_device", places=("write_limit",)),
    _File(1, "blkio", "blkio.throttle.read_iops_device", places=("read_limit_iops",)),
    _File(1, "blkio", "blkio.throttle.write_iops_device", places=("write_limit_iops",)),
    _File(2, "cpu", "cpu.stat", _CPU_STAT),
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


@dataclass(eq=False)
class CgroupMonitor(_OfProcesses):
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

    _files: list[tuple[ProcFile, _File]] = field(default_factory=list, init=False)
    _own: bool = field(default=False, init=False)

    def attach(self, pid: int) -> None:
        """Look up the groups of a held process, which stays in them."""
        folders = cgroup.groups_of(pid, self.root)
        self._own = any(cgroup.is_ours(folder) for _, folder, _ in folders.values())
        for controller, (version, folder, mount) in folders.items():
            files = [file for file in _FILES if (file.version, file.controller) == (version, controller)]
            limit, group = next((file for file in files if file.limits), None), folder
            for level in (folder, *folder.parents):  # the nearest that limits, up to the top of the tree
                with suppress(OSError):
                    if limit is not None and limit.reading((level / limit.name).read_text()):
                        group = level
                        break
                if level == mount:
                    break
            self._files += [(ProcFile(group / file.name), file) for file in files if (group / file.name).exists()]
        if not self._files:
            self.unavailable["cgroup"] = "not available: the processes are in the root group, which has no account"

    def read(self) -> Mapping[str, float]:
        reading: dict[str, float] = {}
        for file, rule in self._files:
            with suppress(OSError):  # the group is gone
                reading |= rule.reading(file.read().decode(errors="replace"))
        if reading:
            reading["own"] = self._own
        return reading

    def detach(self) -> None:
        for file, _ in self._files:
            file.close()
