"""The monitor softirqs: how often the kernel ran each kind of soft interrupt, over all processors (/proc/softirqs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors import COUNTER, Field

IOASSAY_API = 1
KINDS = {
    "BLOCK": "completions of block requests",
    "IRQ_POLL": "polls for completions",
    "NET_RX": "packets received",
    "NET_TX": "packets sent",
    "RCU": "read-copy update",
    "SCHED": "load balancing",
    "TASKLET": "tasklets",
    "TIMER": "timers",
}
FIELDS = {name.lower(): Field(COUNTER, "interrupts", meaning) for name, meaning in KINDS.items()}


class SoftInterrupts:
    """Sums of the counters of all processors."""

    name = "softirqs"
    remedy = ""

    def __init__(self, root: Path) -> None:
        self._path = root / "proc" / "softirqs"

    def read(self) -> Mapping[str, float]:
        """One reading: kind -> number since the system began."""
        lines = (line.split() for line in self._path.read_text().splitlines()[1:])
        counts = {words[0].rstrip(":"): sum(map(float, words[1:])) for words in lines if words}
        return {name.lower(): counts[name] for name in KINDS if name in counts}


def make(root: Path, devices: Sequence[str]) -> SoftInterrupts:
    """For the sampler; `devices` are those of the target, which the kernel does not count apart."""
    return SoftInterrupts(root)
