"""What else used the machine while a trial ran. Measured by `ioassay.host.interference`, judged by
`analysis.machine_conditions`.

Shares are of the time of all processors that the trial may use, together: 0.5 is one of two processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    """A program that is not the trial's; `share` of the processors' time."""

    name: str
    share: float


@dataclass(frozen=True)
class Environment:
    """The machine around one trial, from its first instruction to its end."""

    seconds: float
    processors: int
    own_share: float
    """The trial's processes."""
    others_share: float
    """Programs other than the trial's and ioassay's."""
    kernel_share: float
    """Kernel threads and interrupts, whoever caused them."""
    steal_share: float
    """Taken by the hypervisor."""
    others_share_before: float | None = None
    """Other programs in the pause before this trial; None where there was none, or it was too short."""
    pressure: Mapping[str, float] = field(default_factory=dict)
    """'cpu', 'memory', 'io' -> share of the trial's time in which at least one task of the machine waited for it."""
    programs: Sequence[Program] = ()
    """The busiest of the others, busiest first."""
    devices: Mapping[str, float] = field(default_factory=dict)
    """Block device -> share of its bytes that others than the trial moved; of those that moved at least 1 MiB."""
    throttled: int = 0
    """Times that a processor was slowed down because it was too hot."""
    clock_ratio: float | None = None
    """The processors' frequency at the end over the highest that they offer."""
    idle_share: float | None = None
    """Nobody's time, waiting for devices included: what the trial could still have had. None where it was not kept."""
