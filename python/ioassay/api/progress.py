"""Who looks on while trials run. Nothing is drawn here; the command line's bar is in `cli`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay.roles import CurrentRates, Trial

if TYPE_CHECKING:
    from ioassay.live.run_state import RunState
    from ioassay.records.record import Record
    from ioassay.study.model import Suite


class Progress:
    """Is told what happens while a study runs. Each method does nothing: override those that you want.

    They are called in the thread that called `run`, one after the other. What they raise ends the run, which can be
    resumed.
    """

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        """A run has its folder, its studies and a plan; a search adds trials to it later."""

    def planned(self, trials: int, seconds: float) -> None:
        """Called next: the number of trials, recorded ones included, and the time that all are expected to take."""

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


class Several(Progress):
    """Hands everything on to several views of a run."""

    def __init__(self, views: Sequence[Progress | RunState]) -> None:
        self._views = views

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        """See Progress."""
        plan = list(trials)
        for view in self._views:
            view.opened(folder, suite, plan)

    def planned(self, trials: int, seconds: float) -> None:
        """See Progress."""
        for view in self._views:
            view.planned(trials, seconds)

    def preparing(self, text: str, share: float) -> None:
        """See Progress."""
        for view in self._views:
            view.preparing(text, share)

    def started(self, trial: Trial) -> None:
        """See Progress."""
        for view in self._views:
            view.started(trial)

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """See Progress."""
        for view in self._views:
            view.measuring(trial, rates)

    def ended(self, trial: Trial, status: str) -> None:
        """See Progress."""
        for view in self._views:
            view.ended(trial, status)

    def recorded(self, trial: Trial, record: Record) -> None:
        """See Progress."""
        for view in self._views:
            view.recorded(trial, record)

    def said(self, text: str) -> None:
        """See Progress."""
        for view in self._views:
            view.said(text)
