"""What else used the machine while a trial ran: two readings of /proc and /sys, and the differences between them.

CPU time comes from /proc/stat, of which the trial's own (getrusage(2), exact), ioassay's, that of servers which belong
to the measurement, and the kernel's threads are subtracted: what is left was used by other programs, those included
that began and ended in between. Waiting for a processor, memory or I/O comes from /proc/pressure (PSI), which counts
every task of the machine, the trial's own as well. Two readings of a machine with 200 processes take some 10 ms
together; they are taken while the trial's process is held and after it has ended.

In a container, or where hidepid hides them, kernel threads cannot be told from programs. Of what no visible process
used, only the time in user mode is then taken for that of other programs.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ioassay.host.machine import Machine
from ioassay.process import process_table
from ioassay.process.process_table import Status
from ioassay.records.observation import READ, WRITE, Observation
from ioassay.records.record import Environment, Program

OBSERVE_S = 0.5
_MOST = 3
_RESOURCES = ("cpu", "memory", "io")
_MIN_DEVICE_BYTES = 1 << 20
_MIN_GAP_S = 0.1
"""A shorter pause between two trials says nothing: the ticks of /proc/stat are 10 ms."""
_NAME_BYTES = 15
"""The kernel keeps as much of a program's name (TASK_COMM_LEN of linux/sched.h, less its end)."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    user_s: float = 0.0
    system_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def minus(self, *others: CpuTime) -> CpuTime:
        return CpuTime(
            self.user_s - sum(other.user_s for other in others), self.system_s - sum(other.system_s for other in others)
        )


class _Processor(NamedTuple):
    user_s: float = 0.0
    system_s: float = 0.0
    """Kernel threads included."""
    interrupts_s: float = 0.0
    steal_s: float = 0.0
    idle_s: float = 0.0
    """Waiting for devices included."""


@dataclass(frozen=True)
class _Reading:
    at_s: float
    lab: CpuTime
    processors: Mapping[int, _Processor]
    waited_us: Mapping[str, int]
    """Resource -> time in which at least one task waited for it."""
    processes: Mapping[int, Status]
    served_bytes: Mapping[str, int]
    """READ and WRITE -> bytes that ioassay and the servers of the measurement moved to and from devices."""
    throttled: int
    clock_ratio: float | None
    """Frequency of the processors, over the highest that they offer; None where the kernel does not say."""


class Meter:
    """Readings before and after each trial of a run; keeps the last one, so that the pause between two is known too.

    `servers` are names of programs that belong to the measurement though ioassay did not start them, as they serve
    what is measured: their work, and that of what they start, is not that of others.
    """

    def __init__(self, machine: Machine | None = None, servers: Collection[str] = ()) -> None:
        self._machine = machine or Machine()
        self._servers = frozenset(name.encode()[:_NAME_BYTES].decode(errors="replace") for name in servers)
        self._last: _Reading | None = None
        self._begin: _Reading | None = None
        self._before: float | None = None
        self._allowed: Collection[int] | None = None
        self._served_bytes: dict[str, int] = {}

    def observe(self, seconds: float = OBSERVE_S) -> Environment:
        begin = self._read()
        time.sleep(seconds)
        return self._between(begin, self._read(), CpuTime())

    def begin(self, processors: Collection[int] | None = None) -> None:
        """The trial is about to run; on these processors, None for all."""
        now = self._read()
        last, self._begin = self._last, now
        self._before, self._allowed = None, processors
        if last is not None and now.at_s - last.at_s >= _MIN_GAP_S:
            self._before = self._between(last, now, CpuTime()).others_share

    def end(self, own: CpuTime) -> Environment | None:
        """What there was since `begin`, of a trial whose processes used `own`; None without a beginning."""
        begin, self._begin = self._begin, None
        if begin is None:
            return None
        self._last = end = self._read()
        self._served_bytes = {kind: max(end.served_bytes[kind] - begin.served_bytes[kind], 0) for kind in (READ, WRITE)}
        found = self._between(begin, end, own, self._allowed)
        return replace(found, others_share_before=self._before)

    def device_shares(self, seen: Observation) -> dict[str, float]:
        """Block device -> share of its bytes that others than the last trial and its servers moved.

        The trial's bytes are those that the witness saw it issue, or those of its account (proc_pid_io(5)), which holds
        what it left to be written back. Each device is held against all of them: the disk below a loop device or a
        logical volume serves the same bytes once more, in the name of a kernel thread.
        """
        own = {READ: seen.counters.get("read_bytes", 0.0), WRITE: seen.counters.get("write_bytes", 0.0)}
        for kind in own:
            issued = sum(part.calls.bytes for part in seen.block if part.own and part.kind == kind)
            own[kind] = max(own[kind], issued) + self._served_bytes.get(kind, 0)
        shares = {}
        for name, counted in seen.disks.items():
            moved = {READ: counted.get("read_bytes", 0), WRITE: counted.get("write_bytes", 0)}
            if (total := sum(moved.values())) >= _MIN_DEVICE_BYTES:
                shares[name] = sum(max(moved[kind] - own[kind], 0.0) for kind in moved) / total
        return shares

    def _read(self) -> _Reading:
        machine = self._machine
        times, processes = os.times(), process_table.statuses(machine.root)
        served_bytes = {READ: 0, WRITE: 0}
        for pid in self._family(processes):  # proc_pid_io(5), of those whose account may be read
            account = machine.fields(f"proc/{pid}/io")
            served_bytes[READ] += int(account.get("read_bytes", 0))
            served_bytes[WRITE] += int(account.get("write_bytes", 0))
        files = ("scaling_cur_freq", "cpuinfo_max_freq")
        folders = machine.paths("sys/devices/system/cpu/cpu[0-9]*/cpufreq")
        clocks = [[machine.number(folder / file) for file in files] for folder in folders]
        ratios = [now / most for now, most in clocks if now and most]
        return _Reading(
            at_s=time.monotonic(),
            lab=CpuTime(times.user, times.system),
            processors=_processors(machine),
            # Documentation/accounting/psi.rst: `some avg10=… avg60=… avg300=… total=<microseconds>`.
            waited_us={
                name: int(line.rpartition("total=")[2])
                for name in _RESOURCES
                for line in machine.lines(f"proc/pressure/{name}")[:1]
            },
            processes=processes,
            served_bytes=served_bytes,
            throttled=sum(
                machine.number(path) or 0
                for path in machine.paths("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
            ),
            clock_ratio=sum(ratios) / len(ratios) if ratios else None,
        )

    def _family(self, processes: Mapping[int, Status]) -> set[int]:
        """The processes of ioassay and the servers of the measurement, with all that descend from them."""
        named = [pid for pid, process in processes.items() if process.name in self._servers]
        return process_table.descendants(processes, [os.getpid(), *named])

    def _between(
        self, begin: _Reading, end: _Reading, own: CpuTime, allowed: Collection[int] | None = None
    ) -> Environment:
        wall_s = max(end.at_s - begin.at_s, 1e-9)
        used = {}
        for number, now in end.processors.items():
            before = begin.processors.get(number, _Processor())
            used[number] = _Processor(*(after - first for after, first in zip(now, before, strict=True)))
        spent = {}
        for pid, process in end.processes.items():
            spent[pid] = CpuTime(process.user_ticks * _TICK_S, process.system_ticks * _TICK_S)
            earlier = begin.processes.get(pid)  # unless its number was another one's then
            if earlier is not None and earlier.start_ticks == process.start_ticks:
                spent[pid] = spent[pid].minus(CpuTime(earlier.user_ticks * _TICK_S, earlier.system_ticks * _TICK_S))
        family = self._family(end.processes)
        threads = {pid for pid, process in end.processes.items() if process.is_kernel_thread}
        visible = {pid: spent[pid] for pid in spent.keys() - family - threads}
        children = (spent[pid] for pid in family - {os.getpid()})
        unseen = _total(used.values()).minus(own, end.lab.minus(begin.lab), *children, *visible.values())
        threads_s = _total(spent[pid] for pid in threads).total_s
        unseen_s = unseen.total_s - threads_s if threads else unseen.user_s
        # Ticks are sampled and the trial's own time is exact: a difference below two ticks a processor is no program.
        others_s = _total(visible.values()).total_s + (unseen_s if unseen_s > 2 * _TICK_S * len(used) else 0.0)
        pinned = {number: used[number] for number in allowed or () if number in used}
        if 0 < len(pinned) < len(used):
            # Who used these very processors is not known: others at most what the trial did not use of them.
            used = pinned
            rest_s = max(_total(used.values()).total_s - own.total_s, 0.0)
            others_s = min(others_s, rest_s)
            threads_s = min(threads_s, rest_s - others_s)
        capacity_s = wall_s * max(len(used), 1)
        by_name: dict[str, float] = {}
        for pid, taken in visible.items():
            name = end.processes[pid].name
            by_name[name] = by_name.get(name, 0.0) + taken.total_s
        busiest = sorted((name for name in by_name if by_name[name]), key=lambda name: -by_name[name])[:_MOST]
        return Environment(
            seconds=wall_s,
            processors=len(used),
            own_share=own.total_s / capacity_s,
            others_share=min(others_s / capacity_s, 1.0),
            kernel_share=(threads_s + sum(each.interrupts_s for each in used.values())) / capacity_s,
            steal_share=sum(each.steal_s for each in used.values()) / capacity_s,
            pressure={
                name: (end.waited_us[name] - begin.waited_us[name]) / 1e6 / wall_s
                for name in begin.waited_us.keys() & end.waited_us.keys()
            },
            programs=[Program(name, by_name[name] / capacity_s) for name in busiest],
            throttled=end.throttled - begin.throttled,
            clock_ratio=end.clock_ratio,
            idle_share=min(sum(each.idle_s for each in used.values()) / capacity_s, 1.0),
        )


def cpu_time(usage: resource.struct_rusage | None) -> CpuTime:
    """What a trial's processes used, by getrusage(2); nothing of one that was never started."""
    return CpuTime(usage.ru_utime, usage.ru_stime) if usage is not None else CpuTime()


def _total(times: Iterable[CpuTime | _Processor]) -> CpuTime:
    known = list(times)
    return CpuTime(sum(each.user_s for each in known), sum(each.system_s for each in known))


def _processors(machine: Machine) -> dict[int, _Processor]:
    """proc_stat(5): `cpu0 user nice system idle iowait irq softirq steal …`, in ticks."""
    found = {}
    for line in machine.lines("proc/stat"):
        name, *columns = line.split()
        if name[:3] == "cpu" and name[3:].isdecimal():
            ticks = [int(column) * _TICK_S for column in columns] + [0.0] * 8
            user, nice, system, idle, iowait, irq, softirq, steal = ticks[:8]
            found[int(name[3:])] = _Processor(user + nice, system, irq + softirq, steal, idle + iowait)
    return found
