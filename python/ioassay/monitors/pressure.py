"""How long tasks waited for processor, memory or I/O, from /proc/pressure (Documentation/accounting/psi.rst).

`some`: at least one task waited; `full`: all that could have run did. A kernel without it has no fields here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

RESOURCES = ("cpu", "io", "memory", "irq")
FIELDS: dict[str, Field] = {
    "some_avg10": Field(GAUGE, "%", "share of the last ten seconds in which some task waited"),
    "some_total": Field(COUNTER, "µs", "time in which some task waited"),
    "full_avg10": Field(GAUGE, "%", "share of the last ten seconds in which all tasks waited"),
    "full_total": Field(COUNTER, "µs", "time in which all tasks waited"),
}


class PressureMonitor(TextMonitor):
    """Fields `<resource>.<some or full>_<avg10 or total>`."""

    name = "pressure"
    remedy = "boot the kernel with psi=1"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/pressure" / resource) for resource in RESOURCES])

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading of all four; what this kernel lacks is not in it. `texts` fails when it was booted with psi=0."""
        reading: dict[str, float] = {}
        for resource, text in zip(RESOURCES, texts, strict=True):
            for line in text.decode().splitlines():
                scope, *pairs = line.split()
                values = dict(pair.split("=", 1) for pair in pairs)
                reading[f"{resource}.{scope}_avg10"] = float(values["avg10"])
                reading[f"{resource}.{scope}_total"] = int(values["total"])
        return reading


def make(root: Path, devices: Sequence[str]) -> PressureMonitor:
    """For `ioassay.monitors.monitor`."""
    return PressureMonitor(root)
