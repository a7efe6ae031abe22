"""Hosts that measure trials of a run elsewhere: what the runner asks of them, and what they answer.

Which hosts there are, and how they are reached, is decided in `cluster`; what happens on one of them in `host_session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from ioassay.records.record import FAILED
from ioassay.roles import CurrentRates, Parsed, Trial
from ioassay.runner.worker import Computed


@dataclass(frozen=True)
class Measured:
    """What a host answers: the files of a trial by their path in its folder, record included; or why there are none."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    reason: str = ""
    """Why it failed without a record of its own: its host ended, or refused it."""
    is_over: bool = False
    """Whether its host measures nothing any more for the run."""
    began_unix_s: float = 0.0
    lasted_s: float = 0.0

    def failure(self) -> Computed:
        """What a trial came to that left no files."""
        return Computed(Parsed(FAILED, self.reason), self.began_unix_s, self.lasted_s)


@dataclass(frozen=True)
class News:
    """What happens on a host, for progress displays."""

    trial: Trial
    rates: CurrentRates | None = None
    """None: its tool was started, or what `preparing` says."""
    preparing: str = ""
    share: float = 0.0
    """Of what is being prepared, from 0 to 1."""


class Hosts(Protocol):
    """Measures trials, one at a time on each host. It never raises for a host that ends: its trials fail."""

    @property
    def most(self) -> int:
        """How many trials it is given at once, those that wait included."""

    def submit(self, trial: Trial) -> Future[Measured]:
        """Have a trial measured on the host of its point, after those that were submitted for that host before."""

    def submit_together(self, trials: Sequence[Trial]) -> Sequence[Future[Measured]]:
        """Have trials of different hosts measured, whose tools start at one instant."""

    def news(self) -> Iterable[News]:
        """What happened since it was asked last."""

    def cancel(self) -> None:
        """Give up all that was submitted and has not ended, and have tools that run ended."""
