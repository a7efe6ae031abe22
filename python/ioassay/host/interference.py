"""What else used the machine while a trial ran: two readings of /proc and /sys, and the differences between them.

    meter = Meter(machine)
    meter.begin()
    …
    meter.end(own_cpu_s)     # -> Environment

CPU time comes from /proc/stat, of which the trial's own (getrusage(2), exact), the lab's with the servers that
it started, and the kernel's threads are subtracted: what is left was used by other programs, those included that began
and ended in between. Waiting for a processor, memory or I/O comes from /proc/pressure (PSI), which counts every task
of the machine, the trial's own as well. Two readings of a machine with 200 processes take some 10 ms together; they are
taken while the trial's process is held and after it has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ioassay.host.machine import Machine
from ioassay.records.environment import Environment, Program
from ioassay.records.observation import READ, WRITE, Observation

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the flags in /proc/<pid>/stat (include/linux/sched.h)."""
OBSERVE_S = 0.5
_MOST = 3
_RESOURCES = ("cpu", "memory", "io")
_MIN_DEVICE_BYTES = 1 << 20
_MIN_GAP_S = 0.1
"""A shorter pause between two trials says nothing: the ticks of /proc/stat are 10 ms."""


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    is_kernel_thread: bool
    ticks: int
    start_ticks: int
    """When it began: a number may be given again, and kernel threads change their names."""


@dataclass(frozen=True)
class _Reading:
    """Everything at one moment; ticks are of USER_HZ."""

    at_s: float
    lab_cpu_s: float
    processors: int
    programs_ticks: int
    """User, nice and system, of all processors."""
    interrupt_ticks: int
    steal_ticks: int
    waited_us: Mapping[str, int]
    """Resource -> time in which at least one task waited for it."""
    processes: Mapping[int, _Process]
    throttled: int
    clock_ratio: float | None


class Meter:
    """Readings before and after each trial of a run; keeps the last one, so that the pause between two is known too."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or Machine()
        self._last: _Reading | None = None
        self._begin: _Reading | None = None
        self._before: float | None = None

    def observe(self, seconds: float = OBSERVE_S) -> Environment:
        """What others do now, seen for so long."""
        begin = _read(self._machine)
        time.sleep(seconds)
        return _between(begin, _read(self._machine), 0.0)

    def begin(self) -> None:
        """The trial is about to run."""
        now = _read(self._machine)
        last, self._begin = self._last, now
        self._before = None
        if last is not None and now.at_s - last.at_s >= _MIN_GAP_S:
            self._before = _between(last, now, 0.0).others_share

    def end(self, own_cpu_s: float) -> Environment | None:
        """What there was since `begin`, of a trial whose processes used `own_cpu_s`; None without a beginning."""
        begin, self._begin = self._begin, None
        if begin is None:
            return None
        self._last = _read(self._machine)
        return _between(begin, self._last, own_cpu_s, self._before)


def device_shares(seen: Observation) -> dict[str, float]:
    """Block device -> share of its bytes that others than the trial moved.

    The trial's bytes are those that the witness saw it issue, or those of its account (proc_pid_io(5)), which holds
    what it left to be written back. Each device is held against all of them: the disk below a loop device or a
    logical volume serves the same bytes once more, in the name of a kernel thread.
    """
    own = {READ: seen.counters.get("read_bytes", 0.0), WRITE: seen.counters.get("write_bytes", 0.0)}
    for kind in own:
        issued = sum(part.calls.bytes for part in seen.block if part.own and part.kind == kind)
        own[kind] = max(own[kind], issued)
    shares = {}
    for name, counted in seen.disks.items():
        moved = {READ: counted.get("read_bytes", 0), WRITE: counted.get("write_bytes", 0)}
        if (total := sum(moved.values())) >= _MIN_DEVICE_BYTES:
            shares[name] = sum(max(moved[kind] - own[kind], 0.0) for kind in moved) / total
    return shares


def _between(begin: _Reading, end: _Reading, own_cpu_s: float, before: float | None = None) -> Environment:
    wall_s = max(end.at_s - begin.at_s, 1e-9)
    capacity_s = wall_s * max(end.processors, 1)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    spent = {pid: (process, _ticks(process, begin.processes.get(pid))) for pid, process in end.processes.items()}
    lab = _family(end.processes, os.getpid())
    threads_s = sum(ticks for process, ticks in spent.values() if process.is_kernel_thread) * tick_s
    servers_s = sum(spent[pid][1] for pid in lab - {os.getpid()}) * tick_s
    lab_s = end.lab_cpu_s - begin.lab_cpu_s + servers_s
    programs_s = (end.programs_ticks - begin.programs_ticks) * tick_s
    others = {
        pid: (process.name, ticks * tick_s)
        for pid, (process, ticks) in spent.items()
        if not process.is_kernel_thread and pid not in lab and ticks
    }
    seen_s = sum(cpu_s for _, cpu_s in others.values())
    # Ticks are sampled and the trial's own time is exact: a difference below two ticks a processor is no program.
    unseen_s = programs_s - own_cpu_s - lab_s - threads_s - seen_s
    others_s = seen_s + (unseen_s if unseen_s > 2 * tick_s * end.processors else 0.0)
    by_name: dict[str, float] = {}
    for name, cpu_s in others.values():
        by_name[name] = by_name.get(name, 0.0) + cpu_s
    busiest = sorted(by_name.items(), key=lambda item: -item[1])[:_MOST]
    return Environment(
        seconds=wall_s,
        processors=end.processors,
        own_share=own_cpu_s / capacity_s,
        others_share=min(others_s / capacity_s, 1.0),
        kernel_share=(threads_s + (end.interrupt_ticks - begin.interrupt_ticks) * tick_s) / capacity_s,
        steal_share=(end.steal_ticks - begin.steal_ticks) * tick_s / capacity_s,
        others_share_before=before,
        pressure={
            name: (end.waited_us[name] - begin.waited_us[name]) / 1e6 / wall_s
            for name in begin.waited_us.keys() & end.waited_us.keys()
        },
        programs=[Program(name, cpu_s / capacity_s) for name, cpu_s in busiest],
        throttled=end.throttled - begin.throttled,
        clock_ratio=end.clock_ratio,
    )


def _ticks(now: _Process, before: _Process | None) -> int:
    return now.ticks - (before.ticks if before is not None and before.start_ticks == now.start_ticks else 0)


def _family(processes: Mapping[int, _Process], root: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    family, ahead = set(), [root]
    while ahead:
        pid = ahead.pop()
        if pid in processes and pid not in family:
            family.add(pid)
            ahead += children.get(pid, ())
    return family


def _read(machine: Machine) -> _Reading:
    times = os.times()
    processes = {}
    for name in os.listdir(machine.root / "proc"):
        if name.isdecimal() and (process := _process(machine, name)):
            processes[int(name)] = process
    programs, interrupts, steal = _ticks_of_all(machine)
    return _Reading(
        at_s=time.monotonic(),
        lab_cpu_s=times.user + times.system,
        processors=sum(line[:3] == "cpu" and line[3:4].isdecimal() for line in machine.lines("proc/stat")),
        programs_ticks=programs,
        interrupt_ticks=interrupts,
        steal_ticks=steal,
        waited_us=_waited_us(machine),
        processes=processes,
        throttled=sum(
            machine.number(path) or 0
            for path in machine.paths("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
        ),
        clock_ratio=_clock_ratio(machine),
    )


def _process(machine: Machine, pid: str) -> _Process | None:
    """proc_pid_stat(5): the name stands in parentheses and may hold any character."""
    try:
        text = (machine.root / "proc" / pid / "stat").read_text(errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    columns = rest.split()
    if len(columns) < 20:
        return None
    # A process chooses its own name: nothing in it may reach a terminal as a control character.
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    is_thread = bool(int(columns[6]) & _KERNEL_THREAD)
    return _Process(shown, int(columns[1]), is_thread, int(columns[11]) + int(columns[12]), int(columns[19]))


def _ticks_of_all(machine: Machine) -> tuple[int, int, int]:
    """Ticks of programs and kernel threads (user, nice, system), of interrupts, and those stolen by the hypervisor."""
    for line in machine.lines("proc/stat")[:1]:
        ticks = [int(column) for column in line.split()[1:]] + [0] * 8
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
        return user + nice + system, irq + softirq, steal
    return 0, 0, 0


def _waited_us(machine: Machine) -> dict[str, int]:
    """Documentation/accounting/psi.rst: `some avg10=… avg60=… avg300=… total=<microseconds>`."""
    waited = {}
    for name in _RESOURCES:
        for line in machine.lines(f"proc/pressure/{name}")[:1]:
            waited[name] = int(line.rpartition("total=")[2])
    return waited


def _clock_ratio(machine: Machine) -> float | None:
    """Frequency of the processors now, over the highest that they offer; None where the kernel does not say."""
    ratios = []
    for folder in machine.paths("sys/devices/system/cpu/cpu[0-9]*/cpufreq"):
        now, most = machine.number(folder / "scaling_cur_freq"), machine.number(folder / "cpuinfo_max_freq")
        if now and most:
            ratios.append(now / most)
    return sum(ratios) / len(ratios) if ratios else None
