"""Kernel and hardware events of the trial's own processes, by perf_event_open(2), from their first instruction on.

The counts are the kernel's exact ones, of short-lived processes too. Hardware events also say for which time they were
wanted and for which they had a counter: an analysis scales by the ratio. What this machine lacks is in `unavailable`
and has no value. Deliberately not here: how long tasks waited for a processor (`schedstat`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.host import perf_events
from ioassay.monitors.field import COUNTER, Field

FIELDS: dict[str, Field] = {
    "count": Field(COUNTER, "events", "counted so far; of `task_clock` nanoseconds on a processor"),
    "enabled_ns": Field(COUNTER, "ns", "time that the event was to be counted, over all tasks"),
    "running_ns": Field(COUNTER, "ns", "time in which a hardware counter was free for it, over all tasks"),
}


class PerfMonitor:
    """Fields `<event>.<field>`; the times of hardware events only, since the kernel's own are always counted."""

    name = "perf"
    remedy = ""
    often_absent = True

    def __init__(self) -> None:
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


def make(root: Path, devices: Sequence[str]) -> PerfMonitor:
    """For `ioassay.monitors.monitor`."""
    return PerfMonitor()
