"""How many tasks there are and how many want a processor, from /proc/loadavg (proc_loadavg(5)).

Context switches, interrupts, forks, and the tasks that run or wait at the moment come with the monitor `cpu`: they
stand in the file that it reads anyway. How long tasks waited for a processor is `pressure`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import GAUGE, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

FIELDS: dict[str, Field] = {
    "load1": Field(GAUGE, "tasks", "that ran, could run or waited for I/O, averaged over a minute, falling off"),
    "load5": Field(GAUGE, "tasks", "the same over five minutes"),
    "load15": Field(GAUGE, "tasks", "the same over fifteen minutes"),
    "runnable": Field(GAUGE, "tasks", "that run or could run"),
    "tasks": Field(GAUGE, "tasks", "that exist, threads counted"),
}


class SchedulerMonitor(TextMonitor):
    """Fields as in FIELDS."""

    name = "scheduler"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/loadavg")])

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading: `0.20 0.18 0.12 1/80 11206`."""
        columns = texts[0].split()
        if len(columns) < 4:
            return {}
        loads = [float(column) for column in columns[:3]]
        return dict(zip(FIELDS, [*loads, *map(int, columns[3].split(b"/"))], strict=True))


def make(root: Path, devices: Sequence[str]) -> SchedulerMonitor:
    """For `ioassay.monitors.monitor`."""
    return SchedulerMonitor(root)
