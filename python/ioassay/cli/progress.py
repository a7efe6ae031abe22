"""Progress of a run on a terminal: a bar, the time left, the current point. Silent where stderr is none."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
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

    def said(self, text: str) -> None:
        """A line about how it goes."""


class Terminal(Silent):
    """A bar over all trials. The time left comes from this run's own trials, and before the first from the plan.

    Where several run at once, a trial counts for the share of one that it had of the time.
    """

    def __init__(self, bar: Bar, total: int, forecast_s: float) -> None:
        self._bar = bar
        self._total = total
        self._forecast_s = forecast_s
        self._measured: deque[float] = deque(maxlen=50)
        """What the latest trials took of the run's time, in s."""
        self._running: dict[str, tuple[Trial, float]] = {}
        """Trial's id -> trial and when it began."""
        self._task = bar.add_task("", total=total, left=units.format_duration(forecast_s), point="")

    def preparing(self, text: str, share: float) -> None:
        """Show what is being made."""
        self._bar.update(self._task, point=f"{text} {share:.0%}")

    def started(self, trial: Trial) -> None:
        """Show the point."""
        self._running[trial.id] = (trial, time.monotonic())
        self._show_running()

    def ended(self, trial: Trial, status: str) -> None:
        """Advance, and estimate the rest anew."""
        at_once = len(self._running)
        if trial.id in self._running:
            _, began_s = self._running.pop(trial.id)
            self._measured.append((time.monotonic() - began_s) / at_once)
        self._bar.advance(self._task)
        if status == "failed":
            self._bar.console.print(f"failed: {_named(trial)}", highlight=False)
        self._bar.update(self._task, left=units.format_duration(self._left_s()))
        if self._running:
            self._show_running()

    def said(self, text: str) -> None:
        """Above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def _show_running(self) -> None:
        """The trial that began last, and how many run beside it."""
        latest, _ = next(reversed(self._running.values()))
        beside = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        self._bar.update(self._task, point=f"{_named(latest)} #{latest.repetition + 1}{beside}")

    def _left_s(self) -> float:
        done = self._bar.tasks[0].completed
        each_s = self._forecast_s / max(self._total, 1)
        if self._measured:
            each_s = sum(self._measured) / len(self._measured)
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


@contextmanager
def examining() -> Iterator[Callable[[str, float], None]]:
    """Takes what is examined before a run, with its share; drawn only where stderr is a terminal, and gone after."""
    if not sys.stderr.isatty():
        yield lambda text, share: None
        return
    width = 0

    def show(text: str, share: float) -> None:
        nonlocal width
        line = f"{text}: {share:.0%}"[: (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1]
        sys.stderr.write(f"\r{line:<{width}}")
        sys.stderr.flush()
        width = len(line)

    try:
        yield show
    finally:
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")
            sys.stderr.flush()
