"""Progress of a run on a terminal: a bar, the time left, the current point. Silent where stderr is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ioassay import units
from ioassay.roles import Trial

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Silent:
    """Says nothing."""

    def preparing(self, text: str, share: float) -> None:
        """See run.Progress."""

    def started(self, trial: Trial) -> None:
        """See run.Progress."""

    def ended(self, trial: Trial, status: str) -> None:
        """See run.Progress."""


class Terminal(Silent):
    """A bar over all trials. The time left comes from this run's own trials, and before the first from the plan."""

    def __init__(self, bar: Bar, total: int, forecast_s: float) -> None:
        self._bar = bar
        self._total = total
        self._forecast_s = forecast_s
        self._measured: list[float] = []
        self._began_s = time.monotonic()
        self._task = bar.add_task("", total=total, left=units.format_duration(forecast_s), point="")

    def preparing(self, text: str, share: float) -> None:
        """Show what is being made."""
        self._bar.update(self._task, point=f"{text} {share:.0%}")

    def started(self, trial: Trial) -> None:
        """Show the point."""
        self._began_s = time.monotonic()
        self._bar.update(self._task, point=f"{_named(trial)} #{trial.repetition + 1}")

    def ended(self, trial: Trial, status: str) -> None:
        """Advance, and estimate the rest anew."""
        if status not in ("kept", "unneeded"):
            self._measured.append(time.monotonic() - self._began_s)
        self._bar.advance(self._task)
        if status == "failed":
            self._bar.console.print(f"failed: {_named(trial)}", highlight=False)
        self._bar.update(self._task, left=units.format_duration(self._left_s()))

    def _left_s(self) -> float:
        done = self._bar.tasks[0].completed
        each_s = self._forecast_s / max(self._total, 1)
        if self._measured:
            recent = self._measured[-50:]
            each_s = sum(recent) / len(recent)
        return (self._total - done) * each_s


def _named(trial: Trial) -> str:
    from ioassay import plan

    return f"{trial.study} {plan.describe(trial.point)}"


@contextmanager
def shown(total: int, forecast_s: float) -> Iterator[Silent]:
    """A Progress for `total` trials, drawn only where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left"),
        TextColumn("{task.fields[point]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Terminal(bar, total, forecast_s)
