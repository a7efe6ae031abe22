"""Progress of a run on a terminal: a bar, the time left, the current point. Silent where stderr is none."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ioassay import debug_log, units
from ioassay.roles import Trial

_BAR_COLUMNS = 24
_DRAWN_EVERY_S = 0.1


class Bar:
    """One line of a terminal, drawn anew where it stands and gone at the end; what is said stays above it."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self._total, self._left, self._point = stream, total, "", ""
        self.completed = 0
        self._drawn_s = -_DRAWN_EVERY_S
        self._lock = threading.Lock()

    def update(self, *, left: str | None = None, point: str | None = None) -> None:
        """Show the time left, or what is under way."""
        self._left = self._left if left is None else left
        self._point = self._point if point is None else point
        if time.monotonic() - self._drawn_s >= _DRAWN_EVERY_S:
            self._draw()

    def advance(self) -> None:
        """One trial more has ended."""
        self.completed += 1

    def say(self, text: str) -> None:
        """A line that stays, above the bar."""
        with self._lock:
            self._stream.write(f"\r\x1b[K{text}\n")
        self._draw()

    def end(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self) -> None:
        full = round(_BAR_COLUMNS * min(self.completed / max(self._total, 1), 1.0))
        bar = "━" * full + "╺" + "─" * (_BAR_COLUMNS - full - 1) if full < _BAR_COLUMNS else "━" * full
        line = f"{bar} {self.completed}/{self._total} {self._left} left {self._point}"
        with self._lock:
            try:
                columns = os.get_terminal_size(self._stream.fileno()).columns or 80
            except OSError:
                columns = 80
            self._stream.write("\r" + line[: columns - 1] + "\x1b[K")
            self._stream.flush()
            self._drawn_s = time.monotonic()


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
        bar.update(left=units.format_duration(forecast_s))

    def preparing(self, text: str, share: float) -> None:
        """Show what is being made."""
        self._bar.update(point=f"{text} {share:.0%}")

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
        self._bar.advance()
        if status == "failed":
            self._bar.say(f"failed: {_named(trial)}")
        self._bar.update(left=units.format_duration(self._left_s()))
        if self._running:
            self._show_running()

    def said(self, text: str) -> None:
        """Above the bar."""
        self._bar.say(text)

    def _show_running(self) -> None:
        """The trial that began last, and how many run beside it."""
        latest, _ = next(reversed(self._running.values()))
        beside = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        self._bar.update(point=f"{_named(latest)} #{latest.repetition + 1}{beside}")

    def _left_s(self) -> float:
        done = self._bar.completed
        each_s = self._forecast_s / max(self._total, 1)
        if self._measured:
            each_s = sum(self._measured) / len(self._measured)
        return (self._total - done) * each_s


def _named(trial: Trial) -> str:
    from ioassay.study import plan

    return f"{trial.study} {plan.describe(trial.point)}"


@contextmanager
def shown(total: int, forecast_s: float) -> Iterator[Silent]:
    """A Progress for `total` trials, drawn only where stderr is a terminal."""
    if not sys.stderr.isatty() or debug_log.enabled():  # a bar and a log would overwrite each other
        yield Silent()
        return
    bar = Bar(sys.stderr, total)
    try:
        yield Terminal(bar, total, forecast_s)
    finally:
        bar.end()


@contextmanager
def examining() -> Iterator[Callable[[str, float], None]]:
    """Takes what is examined before a run, with its share; drawn only where stderr is a terminal, and gone after."""
    if not sys.stderr.isatty() or debug_log.enabled():
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
