"""Who looks on while trials run. Nothing is drawn here; the command line's bar is in `cli`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioassay.roles import CurrentRates, Trial

if TYPE_CHECKING:
    from ioassay.records.record import Record


class Progress:
    """Is told what happens while a study runs. Each method does nothing: override those that you want.

    They are called in the thread that called `run`, one after the other. What they raise ends the run, which can be
    resumed.
    """

    def planned(self, trials: int, seconds: float) -> None:
        """Called first: the number of trials, recorded ones included, and the time that all are expected to take."""

    def preparing(self, text: str, share: float) -> None:
        """A target is being made, or a quiet machine is awaited; `share` from 0 to 1."""

    def started(self, trial: Trial) -> None:
        """A trial begins; of drivers that only compute, several at once."""

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """A trial's tool runs; about once a second."""

    def ended(self, trial: Trial, status: str) -> None:
        """A trial ended: ok, failed, skipped, `unneeded` (its point is precise enough) or `kept` (it has a record)."""

    def recorded(self, trial: Trial, record: Record) -> None:
        """A trial has its record, from now or from before; right after `ended`."""

    def said(self, text: str) -> None:
        """A line about how a search goes."""
