"""Processor time by state, for all cores together and for each, and the scheduler's counters, from /proc/stat.

Raw ticks: shares need two readings and are an analysis's business. `guest` time is also counted in `user`, and
`guest_nice` in `nice` (proc_stat(5)), so a total must leave these two out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

_TICKS = "ticks"
STATES: dict[str, Field] = {
    "user": Field(COUNTER, _TICKS, "in user mode"),
    "nice": Field(COUNTER, _TICKS, "in user mode at low priority"),
    "system": Field(COUNTER, _TICKS, "in the kernel"),
    "idle": Field(COUNTER, _TICKS, "nothing to do"),
    "iowait": Field(COUNTER, _TICKS, "idle while a task that last ran here waits for I/O"),
    "irq": Field(COUNTER, _TICKS, "serving interrupts"),
    "softirq": Field(COUNTER, _TICKS, "serving soft interrupts"),
    "steal": Field(COUNTER, _TICKS, "taken by the hypervisor for others"),
    "guest": Field(COUNTER, _TICKS, "running a guest (also in user)"),
    "guest_nice": Field(COUNTER, _TICKS, "running a guest at low priority (also in nice)"),
}
"""In the order of /proc/stat. A tick is 1/sysconf(SC_CLK_TCK) s: the host facts have clock.ticks_per_s."""

_LINES = {
    b"ctxt": "context_switches",
    b"intr": "interrupts",
    b"softirq": "softirqs",
    b"processes": "forks",
    b"procs_running": "running",
    b"procs_blocked": "blocked",
}
_SOFTIRQS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
"""Kinds of soft interrupts, in the order of the line `softirq` (include/linux/interrupt.h)."""
_SOFTIRQ_NAMES = tuple(f"{kind}.softirqs" for kind in _SOFTIRQS)
FIELDS: dict[str, Field] = {
    **STATES,
    "context_switches": Field(COUNTER, "switches", "context switches of all cores"),
    "interrupts": Field(COUNTER, "interrupts", "interrupts served by all cores"),
    "softirqs": Field(COUNTER, "interrupts", "soft interrupts served by all cores, all together and of each kind"),
    "forks": Field(COUNTER, "tasks", "processes and threads created"),
    "running": Field(GAUGE, "tasks", "tasks that run or could run"),
    "blocked": Field(GAUGE, "tasks", "tasks that wait for I/O"),
}


class CpuMonitor(TextMonitor):
    """Fields `all.<state>`, `cpu<N>.<state>`, `<kind>.softirqs`, and the machine-wide ones without a dot."""

    name = "cpu"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/stat")])
        self._names: dict[bytes, tuple[str, ...]] = {}

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading of /proc/stat; a core that went offline is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines():
            key, _, rest = line.partition(b" ")
            if key.startswith(b"cpu"):
                reading.update(zip(self._names_of(key), map(int, rest.split()), strict=False))
            elif name := _LINES.get(key):
                # `intr` goes on with one number an interrupt line: thousands on large machines. The first is the sum.
                reading[name] = int(rest.split(b" ", 1)[0])
                if key == b"softirq":
                    reading.update(zip(_SOFTIRQ_NAMES, map(int, rest.split()[1:]), strict=False))
        return reading

    def _names_of(self, key: bytes) -> tuple[str, ...]:
        if key not in self._names:
            core = "all" if key == b"cpu" else key.decode()
            self._names[key] = tuple(f"{core}.{state}" for state in STATES)
        return self._names[key]


def make(root: Path, devices: Sequence[str]) -> CpuMonitor:
    """For `ioassay.monitors.monitor`."""
    return CpuMonitor(root)
