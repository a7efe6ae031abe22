"""Monitors of the trial's own processes, from their first instruction on: events of the kernel, and waiting.

What this machine lacks is in `unavailable` and has no value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ioassay.host import perf_events
from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, ListedMonitor, ProcFile

MOST_TASKS = 256
"""Tasks that are followed at once: each is an open file and 2 µs a reading."""
MOST_PROGRAMS = 16
"""Programs that are told apart by name; what others do is in the sums."""


class PerfMonitor(ListedMonitor):
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
    often_absent = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self.unavailable: dict[str, str] = {}
        self._counters: list[perf_events.Counter] = []

    def attach(self, pid: int) -> None:
        """Open every event that there is on a process that is held before its program."""
        for event in perf_events.EVENTS:
            counter = perf_events.open_counter(event, pid, on_exec=True)
            if isinstance(counter, str):
                self.unavailable[event.name] = f"not available: {counter}"
            else:
                self._counters.append(counter)

    def read(self) -> Mapping[str, float]:
        """One reading of what is open."""
        reading: dict[str, float] = {}
        for counter in self._counters:
            name, count = counter.event.name, counter.read()
            reading[f"{name}.count"] = count.value
            if counter.event.multiplexed:
                reading[f"{name}.enabled_ns"] = count.enabled_ns
                reading[f"{name}.running_ns"] = count.running_ns
        return reading

    def detach(self) -> None:
        """Close what is open."""
        while self._counters:
            self._counters.pop().close()


@dataclass
class _Task:
    """One task: its open file, what it read last, and its program's name, which is final at the second reading."""

    file: ProcFile
    program: str = ""
    readings: int = 0
    run_ns: int = 0
    wait_ns: int = 0
    slices: int = 0


class SchedstatMonitor(ListedMonitor):
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
    often_absent = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self.unavailable: dict[str, str] = {}
        self._proc = root / "proc"
        self._pid = 0
        self._tasks: dict[tuple[int, int], _Task] = {}
        self._ended: dict[str, list[int]] = {}
        """Program -> run, wait and slices of its tasks that have ended."""
        self._programs: dict[str, None] = {}

    def attach(self, pid: int) -> None:
        """Follow this process, its threads and all that they start."""
        self._pid = pid
        if not (self._proc / str(pid) / "schedstat").exists():
            self.unavailable["schedstat"] = "not available: the kernel keeps no such account (CONFIG_SCHED_INFO)"
            self._pid = 0

    def read(self) -> Mapping[str, float]:
        """One reading of every task that lives, added to those that have ended."""
        if not self._pid:
            return {}
        alive = list(self._living(self._pid))
        self._forget(set(alive))
        for key in alive:
            if key in self._tasks or len(self._tasks) < MOST_TASKS:
                self._follow(key)
        sums = {program: list(values) for program, values in self._ended.items()}
        for task in self._tasks.values():
            _add(sums.setdefault(task.program if task.readings > 1 else "", [0, 0, 0]), task)
        run_ns, wait_ns, slices = (sum(values[place] for values in sums.values()) for place in range(3))
        reading: dict[str, float] = {"run_ns": run_ns, "wait_ns": wait_ns, "slices": slices}
        reading |= {"tasks": len(alive), "unread": sum(key not in self._tasks for key in alive)}
        self._programs |= dict.fromkeys(program for program in sums if program)
        for program in list(self._programs)[:MOST_PROGRAMS]:
            reading[f"{program}.run_ns"], reading[f"{program}.wait_ns"] = sums[program][:2]
        return reading

    def detach(self) -> None:
        """Close what is open."""
        for task in self._tasks.values():
            task.file.close()
        self._tasks.clear()

    def _living(self, pid: int) -> Iterator[tuple[int, int]]:
        """Process and thread of every task of the tree, as far as its parents live."""
        waiting = [pid]
        while waiting:
            process = waiting.pop()
            with suppress(OSError, ValueError):
                for name in os.listdir(self._proc / str(process) / "task"):
                    yield process, int(name)
                    with suppress(OSError, ValueError):
                        text = (self._proc / str(process) / "task" / name / "children").read_bytes()
                        waiting += map(int, text.split())

    def _follow(self, key: tuple[int, int]) -> None:
        folder = self._proc / str(key[0]) / "task" / str(key[1])
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = _Task(ProcFile(folder / "schedstat"))
        with suppress(OSError, ValueError):
            # `run wait slices`, in nanoseconds; a task that has ended is no more in its file (ESRCH).
            task.run_ns, task.wait_ns, task.slices = map(int, task.file.read().split()[:3])
        if task.readings < 2:  # its first name is its parent's, until it becomes its own program
            with suppress(OSError):
                text = (folder / "comm").read_text(errors="replace")
                task.program = re.sub(r"[^\w-]", "_", text.strip()) or "unnamed"
        task.readings += 1

    def _forget(self, alive: set[tuple[int, int]]) -> None:
        for key in self._tasks.keys() - alive:
            task = self._tasks.pop(key)
            task.file.close()
            _add(self._ended.setdefault(task.program, [0, 0, 0]), task)


def _add(sums: list[int], task: _Task) -> None:
    for place, value in enumerate((task.run_ns, task.wait_ns, task.slices)):
        sums[place] += value
