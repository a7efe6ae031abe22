"""Who looks on while trials run, and how long the rest takes. Nothing is drawn here; the bar is in `cli`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay.roles import CurrentRates, Trial

if TYPE_CHECKING:
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

    def grown(self, trials: int) -> None:
        """A plan that grows is expected to have another number of trials than before."""

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


def _handed_on(method: str) -> Callable[..., None]:
    def call_each(self: Several, *what: object) -> None:
        for view in self._views:
            getattr(view, method)(*what)

    return call_each


@dataclass(eq=False)
class Several(Progress):
    _views: Sequence[Progress]

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        plan = list(trials)
        for view in self._views:
            view.opened(folder, suite, plan)

    planned, grown, preparing, started = map(_handed_on, ("planned", "grown", "preparing", "started"))
    measuring, ended, recorded, said = map(_handed_on, ("measuring", "ended", "recorded", "said"))


class RemainingTime:
    """The time that the rest of `total` trials takes: by those that ended, and before the first of them by the plan.

    Where several run at once, a trial counts for its share of the time.
    """

    def __init__(self, total: int, forecast_s: float, clock: Callable[[], float]) -> None:
        self.total, self.completed = total, 0
        self._clock = clock
        self._each_s = forecast_s / max(total, 1)
        self._measured_s: deque[float] = deque(maxlen=50)
        """Of the latest trials."""
        self._began_s: dict[str, float] = {}

    def start(self, trial_id: str) -> None:
        self._began_s[trial_id] = self._clock()

    def end(self, trial_id: str) -> None:
        """A trial ended. One that never began was kept or not needed, and says nothing about the time."""
        at_once = len(self._began_s)
        if (began_s := self._began_s.pop(trial_id, None)) is not None:
            self._measured_s.append((self._clock() - began_s) / at_once)
        self.completed += 1

    def seconds(self) -> float:
        """What the trials that have not ended will take; of those that run what is left of them."""
        each_s = sum(self._measured_s) / len(self._measured_s) if self._measured_s else self._each_s
        at_once, now_s = len(self._began_s), self._clock()
        spent_s = sum(min((now_s - began_s) / at_once, each_s) for began_s in self._began_s.values())
        return max((self.total - self.completed) * each_s - spent_s, 0.0)
