"""What a trial passes right before its tool's first instruction.

On this machine it is open. On a host that measures for a run elsewhere, the run fixes the instant of the start, and may
have the tool ended (`hosts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ioassay.records.record import Warning_
from ioassay.roles import Trial


@dataclass(frozen=True)
class Start:
    """What is kept of how a trial's tool was started."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    warnings: Sequence[Warning_] = ()


class Gate:
    """The open gate: a tool starts when all that watches it is ready, and ends by itself."""

    def ready(self, trial: Trial) -> None:
        """Called while the tool is held before its first instruction. Returns once the instant of its start is fixed,
        early enough for readings of counters before it."""

    def go(self, trial: Trial) -> None:
        """Returns at that instant."""

    def account(self, trial: Trial, unix_s: float) -> Start:
        """What is to be kept of a start at a time of this host's clock."""
        return Start()

    def withdrawn(self) -> str:
        """Why the trial that runs must end; '' while it may go on."""
        return ""
